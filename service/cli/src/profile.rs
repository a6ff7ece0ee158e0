//! A profile: the target, the trusted certificates and the token that `shoal login` stores, and
//! that later commands use.
//!
//! A profile is a TOML file that only its owner may read. Its settings apply to its own target
//! only, so a command with another `--target` never sends its token there.

use std::fmt;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use shoal_client::{LoginArgs, Secret};
use shoal_service::file_watch::read_bounded;

use super::error::CliError;
use super::file_edit::{lock_folder, replace_private};

/// Name of the profile that a command uses if it names none.
pub const DEFAULT_PROFILE: &str = "default";

/// Maximum length of a profile's file, in bytes.
const PROFILE_BYTES_MAX: u64 = 64 << 10;
/// Permissions of others than the owner.
const OTHERS: u32 = 0o077;

/// See the file's head. Paths are absolute.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// URL of the server.
    pub target: String,
    /// File with the certificates to trust.
    #[serde(skip_serializing_if = "Option::is_none")]
    tls_ca: Option<PathBuf>,
    /// File with the certificate of this client.
    #[serde(skip_serializing_if = "Option::is_none")]
    tls_cert: Option<PathBuf>,
    /// File with its key.
    #[serde(skip_serializing_if = "Option::is_none")]
    tls_key: Option<PathBuf>,
    /// Name in the certificate of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    tls_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
}

impl fmt::Debug for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Profile").field("target", &self.target).finish_non_exhaustive()
    }
}

impl Profile {
    /// A profile of these settings.
    ///
    /// # Errors
    /// [`CliError::Local`] if the current folder is unknown.
    pub fn new(target: &str, login: &LoginArgs, token: Option<&Secret>) -> Result<Self, CliError> {
        let absolute = |file: &Option<PathBuf>| {
            let path = file.as_deref().map(std::path::absolute).transpose();
            path.map_err(CliError::local("the path of a file"))
        };
        Ok(Self {
            target: target.to_owned(),
            tls_ca: absolute(&login.tls_ca)?,
            tls_cert: absolute(&login.tls_cert)?,
            tls_key: absolute(&login.tls_key)?,
            tls_name: login.tls_name.clone(),
            token: token.map(|token| token.expose().to_owned()),
        })
    }

    /// Reads a profile; `None` if it does not exist.
    ///
    /// # Errors
    /// [`CliError::Input`] for a file that others can read, or that is invalid. The error does not
    /// repeat the content.
    pub fn read(name: &str) -> Result<Option<Self>, CliError> {
        let Some(path) = path(name).filter(|path| path.exists()) else { return Ok(None) };
        let wrong = |reason: String| CliError::Input { file: path.display().to_string(), reason };
        let of = fs::metadata(&path).map_err(|error| wrong(error.to_string()))?;
        if of.permissions().mode() & OTHERS != 0 {
            let reason = "others than its owner have access to it: run `chmod 600` on it";
            return Err(wrong(reason.to_owned()));
        }
        let text = read_bounded(&path, PROFILE_BYTES_MAX).map_err(wrong)?;
        // The text of the error quotes the line, and so perhaps the token.
        let profile: Result<Self, _> = toml::from_str(&text);
        let invalid = |error: toml::de::Error| wrong(error.message().to_owned());
        profile.map(Some).map_err(invalid)
    }

    /// Stores the profile; returns its file, which only the owner can read.
    ///
    /// # Errors
    /// [`CliError::Usage`] without a home folder, [`CliError::Local`].
    pub fn write(&self, name: &str) -> Result<PathBuf, CliError> {
        let homeless = || CliError::Usage("a profile needs HOME or XDG_CONFIG_HOME".to_owned());
        let path = path(name).ok_or_else(homeless)?;
        let failed = || CliError::local(path.display().to_string());
        if let Some(folder) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed())?;
        }
        let text = toml::to_string(self).map_err(|error| CliError::Usage(error.to_string()))?;
        let _turn = lock_folder(&path).map_err(failed())?;
        replace_private(&path, &text).map_err(failed())?;
        Ok(path)
    }

    /// Deletes a profile; returns its file, or `None` if it does not exist.
    ///
    /// # Errors
    /// [`CliError::Local`].
    pub fn delete(name: &str) -> Result<Option<PathBuf>, CliError> {
        let Some(path) = path(name).filter(|path| path.exists()) else { return Ok(None) };
        fs::remove_file(&path).map_err(CliError::local(path.display().to_string()))?;
        Ok(Some(path))
    }

    /// The token.
    ///
    /// # Errors
    /// [`CliError::Usage`] if it is no token.
    pub fn token(&self) -> Result<Option<Secret>, CliError> {
        let token = self.token.as_deref().map(str::parse::<Secret>).transpose();
        token.map_err(|error| CliError::Usage(format!("the profile: {error}")))
    }

    /// Adds the profile's TLS settings to those that are not given.
    pub fn complete(&self, login: &mut LoginArgs) {
        let fill = |given: &mut Option<PathBuf>, own: &Option<PathBuf>| {
            *given = given.take().or_else(|| own.clone());
        };
        fill(&mut login.tls_ca, &self.tls_ca);
        if login.tls_cert.is_none() {
            fill(&mut login.tls_cert, &self.tls_cert);
            fill(&mut login.tls_key, &self.tls_key);
        }
        login.tls_name = login.tls_name.take().or_else(|| self.tls_name.clone());
    }
}

/// Parses the name of a profile, which is the name of its file.
///
/// # Errors
/// The allowed characters.
pub fn profile_name(text: &str) -> Result<String, String> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    if (1..=64).contains(&text.len()) && text.bytes().all(allowed) {
        return Ok(text.to_owned());
    }
    Err("use 1 to 64 letters, digits, '_' and '-'".to_owned())
}

/// The file of a profile, as the XDG Base Directory Specification (version 0.8) defines it; `None`
/// without a home folder.
fn path(name: &str) -> Option<PathBuf> {
    let folder = |variable: &str| std::env::var_os(variable).map(PathBuf::from);
    let config = folder("XDG_CONFIG_HOME").filter(|folder| folder.is_absolute());
    let home = || folder("HOME").filter(|folder| folder.is_absolute());
    let config = config.or_else(|| Some(home()?.join(".config")))?;
    Some(config.join("shoal").join(format!("{name}.toml")))
}
