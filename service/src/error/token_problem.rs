//! Why a token is refused. The names are part of the protocol (`error.proto`).

/// See the file's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenProblem {
    /// No header `authorization`.
    #[error("the call has no token: send the header `authorization: Bearer TOKEN`")]
    Missing,
    /// The header, or the token in it, has another form.
    #[error("the header authorization is not `Bearer TOKEN` with a token of a known form")]
    Malformed,
    /// Neither listed nor signed by a known key.
    #[error("the token is not known")]
    Unknown,
    /// Its time is over.
    #[error("the token has expired")]
    Expired,
    /// Its time has not come.
    #[error("the token is not valid yet")]
    NotYetValid,
    /// It is meant for another service.
    #[error("the audience of the token is another service")]
    Audience,
    /// Its issuer is not the issuer of the keys.
    #[error("the issuer of the token is not accepted")]
    Issuer,
    /// The signature is not that of its key.
    #[error("the signature of the token is wrong")]
    Signature,
    /// Its algorithm is not that of its key.
    #[error("the algorithm of the token is not that of its key")]
    Algorithm,
    /// A claim is missing or malformed.
    #[error(
        "a claim of the token is missing or invalid: exp, nbf, aud, sub and shoal are required"
    )]
    Claims,
    /// It was valid when the call began, but the files no longer accept it.
    #[error("the token was withdrawn")]
    Withdrawn,
}

impl TokenProblem {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Missing,
        Self::Malformed,
        Self::Unknown,
        Self::Expired,
        Self::NotYetValid,
        Self::Audience,
        Self::Issuer,
        Self::Signature,
        Self::Algorithm,
        Self::Claims,
        Self::Withdrawn,
    ];

    /// Its name in the error metadata `problem`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Missing => "MISSING",
            Self::Malformed => "MALFORMED",
            Self::Unknown => "UNKNOWN",
            Self::Expired => "EXPIRED",
            Self::NotYetValid => "NOT_YET_VALID",
            Self::Audience => "AUDIENCE",
            Self::Issuer => "ISSUER",
            Self::Signature => "SIGNATURE",
            Self::Algorithm => "ALGORITHM",
            Self::Claims => "CLAIMS",
            Self::Withdrawn => "WITHDRAWN",
        }
    }
}
