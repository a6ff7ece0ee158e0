//! Bounds the memory of a decoded large message before it is decoded.
//!
//! A submessage of two encoded bytes takes hundreds of bytes in memory, and a number of one byte
//! takes eight. So the elements of repeated fields are counted in the encoded message with the help
//! of its descriptor. Each field has a limit for the whole message. Numbers of fixed width need no
//! limit, because they take as much memory as encoded bytes.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::LazyLock;

use prost::Message;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FileDescriptorSet};
use shoal_engine::limits::GET_OBJECTS_MAX;
use shoal_proto::v1;

use super::protobuf_reader::{ProtobufReader, Value};
use crate::error::ServiceError;
use crate::limits::{BATCH_QUERIES_MAX, EVENT_KINDS_SENT_MAX, REGION_CHANGES_MAX, RINGS_SENT_MAX};

/// The limited repeated fields: message, field, and most elements of the field in one request.
const LIMITS: [(&str, &str, usize); 16] = [
    ("GetRequest", "names", GET_OBJECTS_MAX),
    ("GetQuery", "names", GET_OBJECTS_MAX),
    ("ResolveRequest", "names", GET_OBJECTS_MAX),
    ("RemoveRequest", "names", GET_OBJECTS_MAX),
    ("TrajectoryRequest", "names", GET_OBJECTS_MAX),
    ("AsOfRequest", "names", GET_OBJECTS_MAX),
    ("EraseRequest", "names", GET_OBJECTS_MAX),
    ("BatchRequest", "queries", BATCH_QUERIES_MAX),
    ("CountRegionsRequest", "regions", BATCH_QUERIES_MAX),
    ("SubscribeRequest", "regions", REGION_CHANGES_MAX),
    ("ModifyRequest", "add", REGION_CHANGES_MAX),
    ("ModifyRequest", "change", REGION_CHANGES_MAX),
    ("ModifyRequest", "remove", REGION_CHANGES_MAX),
    ("RegionSubscription", "events", EVENT_KINDS_SENT_MAX),
    ("Polygon", "rings", RINGS_SENT_MAX),
    ("MultiPolygon", "polygons", RINGS_SENT_MAX),
];
/// Greater than every field number that is checked.
const FIELDS_MAX: usize = 32;

/// A request message that may be large.
pub(super) trait Shaped: Message + Default + Send + 'static {
    /// Path of the method.
    const METHOD: &'static str;
    /// Name of the message.
    const NAME: &'static str;
}

macro_rules! shaped {
    ($($service:literal { $($method:literal $message:ident;)+ })+) => {
        $($(impl Shaped for v1::$message {
            const METHOD: &'static str = concat!("/shoal.v1.", $service, "/", $method);
            const NAME: &'static str = stringify!($message);
        })+)+

        /// Paths of the methods whose large requests are bounded here.
        pub(super) const METHODS: &[&str] =
            &[$($(concat!("/shoal.v1.", $service, "/", $method),)+)+];
    };
}

shaped! {
    "QueryService" {
        "Get" GetRequest;
        "Range" RangeRequest;
        "Nearest" NearestRequest;
        "CountRegions" CountRegionsRequest;
        "Batch" BatchRequest;
        "Resolve" ResolveRequest;
        "Names" NamesRequest;
        "ListNames" ListNamesRequest;
    }
    "SubscriptionService" {
        "Subscribe" SubscribeRequest;
        "Modify" ModifyRequest;
    }
    "PositionService" {
        "Remove" RemoveRequest;
    }
    "HistoryService" {
        "Trajectory" TrajectoryRequest;
        "Passed" PassedRequest;
        "AsOf" AsOfRequest;
        "Replay" ReplayRequest;
        "Density" DensityRequest;
        "Erase" EraseRequest;
    }
}

/// The fields of a message that are repeated or are messages, by field number.
type MessageShape = [Option<FieldShape>; FIELDS_MAX];

/// See [`MessageShape`].
#[derive(Clone, Debug)]
struct FieldShape {
    name: String,
    is_repeated: bool,
    /// Whether its values are numbers, of which many may be packed into one field.
    is_packable: bool,
    /// Index of its message type in [`Shapes`], if its type is a message.
    message: Option<usize>,
    /// Its index in [`LIMITS`], if it has a limit.
    limit: Option<usize>,
}

/// The shapes of all messages of the API.
#[derive(Debug, Default)]
struct Shapes {
    numbers: HashMap<String, usize>,
    messages: Vec<MessageShape>,
}

static SHAPES: LazyLock<Shapes> = LazyLock::new(|| {
    // The descriptors are part of this program.
    let set = FileDescriptorSet::decode(shoal_proto::DESCRIPTORS).unwrap_or_default();
    let messages = set.file.iter().flat_map(|file| &file.message_type);
    let numbers: HashMap<String, usize> = messages
        .clone()
        .zip(0..)
        .map(|(message, number)| (message.name().into(), number))
        .collect();
    let messages = messages.map(|message| shape(message, &numbers)).collect();
    Shapes { numbers, messages }
});

fn shape(message: &DescriptorProto, numbers: &HashMap<String, usize>) -> MessageShape {
    let mut shape = [const { None }; FIELDS_MAX];
    for field in &message.field {
        let is_repeated = field.label() == Label::Repeated;
        let type_name = field.type_name().rsplit('.').next();
        let of_type = type_name.and_then(|name| numbers.get(name)).copied();
        let of_type = of_type.filter(|_| field.r#type() == Type::Message);
        let Some(place) = shape.get_mut(field.number() as usize) else { continue };
        if is_repeated || of_type.is_some() {
            let is_of =
                |limit: &(&str, &str, usize)| (limit.0, limit.1) == (message.name(), field.name());
            *place = Some(FieldShape {
                name: field.name().to_owned(),
                is_repeated,
                is_packable: !matches!(field.r#type(), Type::String | Type::Bytes | Type::Message),
                message: of_type,
                limit: LIMITS.iter().position(is_of),
            });
        }
    }
    shape
}

/// Checks that no repeated field of a message has more elements than its limit.
///
/// # Errors
/// [`ServiceError::Field`] with the first field beyond its limit;
/// [`ServiceError::Malformed`].
pub(super) fn check_shape<T: Shaped>(bytes: &[u8]) -> Result<(), ServiceError> {
    let Some(number) = SHAPES.numbers.get(T::NAME) else { return Ok(()) };
    let mut count = ShapeCount { counts: [0; LIMITS.len()], path: Vec::new() };
    count.read(&SHAPES.messages[*number], ProtobufReader::new(T::NAME, bytes, 0))
}

/// The numbers of elements counted so far.
struct ShapeCount {
    counts: [usize; LIMITS.len()],
    /// The path to the message that is read: for each level the field, and its index if the field
    /// is repeated.
    path: Vec<(&'static FieldShape, u32)>,
}

impl ShapeCount {
    fn read(
        &mut self,
        shape: &'static MessageShape,
        mut reader: ProtobufReader<'_>,
    ) -> Result<(), ServiceError> {
        let mut places = [0; FIELDS_MAX];
        while let Some((number, value)) = reader.field()? {
            let Some(Some(field)) = shape.get(number as usize) else { continue };
            let place = places[number as usize];
            places[number as usize] += 1;
            if let Some(limit) = field.limit {
                self.counts[limit] += elements(field, value);
                if self.counts[limit] > LIMITS[limit].2 {
                    return Err(self.refusal(field, LIMITS[limit].2));
                }
            }
            if let (Some(message), Value::Bytes(bytes)) = (field.message, value) {
                self.path.push((field, place));
                self.read(&SHAPES.messages[message], reader.inner(bytes))?;
                self.path.pop();
            }
        }
        Ok(())
    }

    #[cold]
    fn refusal(&self, field: &FieldShape, limit: usize) -> ServiceError {
        let mut path = String::new();
        for (outer, place) in &self.path {
            path.push_str(&outer.name);
            if outer.is_repeated {
                // Writing to a string cannot fail.
                let _ = write!(path, "[{place}]");
            }
            path.push('.');
        }
        path.push_str(&field.name);
        let problem = format!("more than {limit} in the message exceed the limit");
        ServiceError::field(path, problem)
    }
}

/// The number of elements in a value of a repeated field; packed numbers are several.
fn elements(field: &FieldShape, value: Value<'_>) -> usize {
    match value {
        Value::Bytes(numbers) if field.is_packable => {
            numbers.iter().filter(|byte| **byte < 0x80).count()
        }
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use prost_types::FieldDescriptorProto;
    use shoal_proto::v1::batch_query::Kind;

    use super::*;

    fn field_of<T: Shaped>(bytes: &[u8]) -> Option<String> {
        match check_shape::<T>(bytes) {
            Ok(()) => None,
            Err(ServiceError::Field { field, .. }) => Some(field),
            Err(error) => panic!("{error}"),
        }
    }

    /// A field of bytes.
    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let mut field = vec![number << 3 | 2];
        prost::encode_length_delimiter(bytes.len(), &mut field).unwrap();
        [field, bytes.to_vec()].concat()
    }

    #[test]
    fn empty_submessages_are_refused_with_their_path() {
        let queries = |count: usize| [0x12, 0].repeat(count);
        assert_eq!(field_of::<v1::BatchRequest>(&queries(4096)), None);
        assert_eq!(field_of::<v1::BatchRequest>(&queries(4097)).unwrap(), "queries");
        let regions = [0x12, 0].repeat(REGION_CHANGES_MAX + 1);
        assert_eq!(field_of::<v1::SubscribeRequest>(&regions).unwrap(), "regions");
        // Rings of the second query, in two polygons that are joined.
        let rings = field(1, &[]).repeat(RINGS_SENT_MAX / 2 + 1);
        let polygon = field(3, &rings).repeat(2);
        let query = field(2, &field(2, &polygon));
        let bytes = [field(2, &[]), query].concat();
        let found = field_of::<v1::BatchRequest>(&bytes).unwrap();
        assert_eq!(found, "queries[1].range.polygon.rings");
        let decoded = v1::BatchRequest::decode(&bytes[..]).unwrap();
        let Some(Kind::Range(region)) = &decoded.queries[1].kind else { panic!("no region") };
        let Some(v1::region::Kind::Polygon(polygon)) = &region.kind else { panic!("no polygon") };
        assert_eq!(polygon.rings.len(), 2 * (RINGS_SENT_MAX / 2 + 1));
    }

    #[test]
    fn packed_numbers_are_counted_one_by_one() {
        let events = |count: usize| field(2, &field(4, &vec![1; count]));
        assert_eq!(field_of::<v1::SubscribeRequest>(&events(EVENT_KINDS_SENT_MAX)), None);
        let found = field_of::<v1::SubscribeRequest>(&events(EVENT_KINDS_SENT_MAX + 1));
        assert_eq!(found.unwrap(), "regions[0].events");
        let remove = v1::ModifyRequest { remove: vec![u64::MAX; 16_385], ..Default::default() };
        assert_eq!(field_of::<v1::ModifyRequest>(&remove.encode_to_vec()).unwrap(), "remove");
        let ids = v1::GetRequest { objects: vec![7; 65_537], ..Default::default() };
        assert_eq!(field_of::<v1::GetRequest>(&ids.encode_to_vec()), None);
    }

    #[test]
    fn names_are_counted_one_by_one() {
        let get = |count: usize| {
            let names = vec!["truck-42".to_owned(); count];
            v1::GetRequest { names, ..Default::default() }.encode_to_vec()
        };
        assert_eq!(field_of::<v1::GetRequest>(&get(GET_OBJECTS_MAX)), None);
        assert_eq!(field_of::<v1::GetRequest>(&get(GET_OBJECTS_MAX + 1)).unwrap(), "names");
    }

    /// Repeated fields without a limit, of a message and those in it.
    fn unlimited(set: &FileDescriptorSet, message: &str, depth: usize) -> Vec<String> {
        assert!(depth < 10, "{message} contains itself");
        let mut messages = set.file.iter().flat_map(|file| &file.message_type);
        let Some(message) = messages.find(|it| it.name() == message) else { return Vec::new() };
        let mut found = Vec::new();
        for field in &message.field {
            assert!((field.number() as usize) < FIELDS_MAX);
            let is_wide = |field: &FieldDescriptorProto| {
                matches!(field.r#type(), Type::Fixed64 | Type::Double | Type::Sfixed64)
            };
            let has_limit = LIMITS.iter().any(|it| (it.0, it.1) == (message.name(), field.name()));
            if field.label() == Label::Repeated && !is_wide(field) && !has_limit {
                found.push(format!("{}.{}", message.name(), field.name()));
            }
            let of_type = field.type_name().rsplit('.').next().unwrap_or_default();
            found.extend(unlimited(set, of_type, depth + 1));
        }
        found
    }

    #[test]
    fn every_repeated_field_of_a_large_request_has_a_limit() {
        let set = FileDescriptorSet::decode(shoal_proto::DESCRIPTORS).unwrap();
        let mut checked = 0;
        for service in set.file.iter().flat_map(|file| &file.service) {
            for method in &service.method {
                let path = format!("/shoal.v1.{}/{}", service.name(), method.name());
                if METHODS.contains(&path.as_str()) {
                    let input = method.input_type().rsplit('.').next().unwrap();
                    assert_eq!(unlimited(&set, input, 0), [""; 0], "{path}");
                    checked += 1;
                }
            }
        }
        assert_eq!(checked, METHODS.len());
    }
}
