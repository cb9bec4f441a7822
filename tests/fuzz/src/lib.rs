//! What must hold of the decoders for any bytes whatever: nothing panics, and what was read can be
//! written and read again without a change.
//!
//! Knows nothing of where the bytes come from: libFuzzer makes them up, and `tests/plugin_corpus.rs` takes
//! them from the corpus. Invariant: a function here returns for every input, or the decoder has a bug.

use std::fmt::Debug;
use std::sync::LazyLock;

use egress::backend::libvirt::{Guests, HostFacts};
use egress::plugin::provider::RawState;
use egress::plugin::schema::{
    Attribute, Block, IdentityAttribute, IdentitySchema, NestedBlock, ObjectNesting, Schema,
};
use egress::plugin::types::Type;
use egress::plugin::value::{Number, Value};
use egress::transport::known_hosts::{HostName, KnownHosts};
use egress::transport::libvirt::RemoteError;
use egress::transport::libvirt::packet::{HEAD, Header, frame, read};
use egress::transport::libvirt::types::{
    Domain, DomainState, DomainStats, Interface, NodeInfo, Pool, PoolInfo, Volume, VolumeInfo,
};
use egress::transport::libvirt::xdr::{Decode, Encode, Encoder, whole};
use futures_util::FutureExt as _;

/// The types that a value's first byte chooses from: each kind, and what they make together.
static TYPES: LazyLock<Vec<Type>> = LazyLock::new(|| {
    let object = Type::object([
        ("name", Type::String),
        ("ports", Type::list(Type::Number)),
        ("rules", Type::set(Type::object([("allow", Type::Bool)]))),
        ("any", Type::Dynamic),
    ]);
    let optional = Type::Object(
        [("a".to_owned(), Type::Bool), ("b".to_owned(), Type::Number)].into(),
        ["b".to_owned()].into(),
    );
    vec![
        Type::Bool,
        Type::Number,
        Type::String,
        Type::Dynamic,
        Type::list(Type::String),
        Type::set(Type::Number),
        Type::map(Type::Dynamic),
        Type::Tuple(vec![Type::Bool, Type::Dynamic, Type::String]),
        object,
        optional,
    ]
});

/// The schemas that a state's first byte chooses from: without `dynamic`, and with it everywhere.
static SCHEMAS: LazyLock<[Schema; 2]> = LazyLock::new(|| [schema(&Type::Number), schema(&Type::Dynamic)]);

fn schema(ty: &Type) -> Schema {
    let text = || Attribute::string("text");
    let block = || {
        Block::new().attributes([
            text(),
            Attribute::new("value", ty.clone()),
            Attribute::string("secret").write_only(),
        ])
    };
    // A set holds no `dynamic`: its elements have one type.
    let plain = Block::new().attribute(text());
    Schema::new(
        block()
            .attributes([
                Attribute::string("id").computed(),
                Attribute::map("numbers", Type::Number),
                Attribute::nested("one", ObjectNesting::Single, [text(), Attribute::bool("flag")]),
                Attribute::nested("many", ObjectNesting::Map, [text()]),
            ])
            .blocks([
                NestedBlock::single("single", block()),
                NestedBlock::group("group", block()),
                NestedBlock::list("list", block()),
                NestedBlock::set("set", plain),
                NestedBlock::map("map", block()),
            ]),
    )
}

/// The first byte as a choice out of `count`, and the rest.
fn chosen(data: &[u8], count: usize) -> Option<(usize, &[u8])> {
    let (first, rest) = data.split_first()?;
    Some((usize::from(*first) % count, rest))
}

/// Values as MessagePack: a byte that chooses the type, then the value.
pub fn msgpack(data: &[u8]) {
    if let Some((choice, bytes)) = chosen(data, TYPES.len()) {
        msgpack_of(bytes, &TYPES[choice]);
    }
}

fn msgpack_of(bytes: &[u8], ty: &Type) {
    let Ok(value) = Value::from_msgpack(bytes, ty) else {
        return;
    };
    let written = value.to_msgpack(ty).expect("what was read can be written");
    let again = Value::from_msgpack(&written, ty).expect("what was written can be read");
    // Of an unknown value less may be said than was heard, once: long prefixes are cut.
    assert!(
        again == value || !value.is_wholly_known(),
        "a known value changed on the way"
    );
    let rewritten = again.to_msgpack(ty).expect("what was read can be written");
    assert_eq!(rewritten, written, "the second writing differs from the first");
}

/// What is said of unknown values: a byte that chooses the type, then the extension's body.
pub fn refinements(data: &[u8]) {
    let Some((choice, body)) = chosen(data, TYPES.len()) else {
        return;
    };
    let Ok(length) = u16::try_from(body.len()) else {
        return;
    };
    let mut bytes = vec![0xc8];
    bytes.extend(length.to_be_bytes());
    bytes.push(12);
    bytes.extend(body);
    msgpack_of(&bytes, &TYPES[choice]);
}

/// Whether a number without a form in JSON occurs in a value.
fn has_infinity(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_infinite(),
        Value::List(items) => items.iter().any(has_infinity),
        Value::Map(entries) => entries.values().any(has_infinity),
        Value::Dynamic(_, inner) => has_infinity(inner),
        Value::Null | Value::Unknown(_) | Value::Bool(_) | Value::String(_) => false,
    }
}

/// Values as JSON: a byte that chooses the type, then the value.
pub fn json(data: &[u8]) {
    let Some((choice, bytes)) = chosen(data, TYPES.len()) else {
        return;
    };
    let ty = &TYPES[choice];
    let Ok(value) = Value::from_json(bytes, ty) else {
        return;
    };
    let written = match value.to_json(ty) {
        Ok(written) => written,
        Err(_) if has_infinity(&value) => return,
        Err(error) => panic!("what was read cannot be written: {error:?}"),
    };
    let again = Value::from_json(&written, ty).expect("what was written can be read");
    assert!(again == value, "the value changed on the way");
    let packed = value.to_msgpack(ty).expect("it fits its type");
    let again = Value::from_msgpack(&packed, ty).expect("what was written can be read");
    assert!(again == value, "the value changed on the other way");
}

/// Stored states: a byte that chooses the schema, then the state.
pub fn state(data: &[u8]) {
    let Some((choice, bytes)) = chosen(data, SCHEMAS.len()) else {
        return;
    };
    let schema = &SCHEMAS[choice];
    let raw = RawState::from_json(bytes);
    let identity = IdentitySchema::new([
        IdentityAttribute::required("id", Type::String, ""),
        IdentityAttribute::required("ports", Type::list(Type::Number), ""),
    ]);
    // Its result is a value of a plain type, which `json` has the properties of.
    drop(raw.decode_identity(&identity));
    let Ok(value) = raw.decode(schema) else {
        return;
    };
    let mut cleared = value.clone();
    schema.block.clear_write_only(&mut cleared);
    assert!(cleared == value, "a write-only attribute has a value");
    let ty = schema.block.ty();
    // Under `dynamic`, what the provider sees is no longer what was stored, and only the layer writes it.
    if choice == 1 || has_infinity(&value) {
        return;
    }
    let written = value.to_json(&ty).expect("what was read can be written");
    let again = RawState::from_json(written)
        .decode(schema)
        .expect("what was written can be read");
    assert!(again == value, "the state changed on the way");
}

/// Numbers as text: two, each on a line.
pub fn number(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let (one, other) = text.split_once('\n').unwrap_or((text, "0"));
    let (Ok(one), Ok(other)) = (one.parse::<Number>(), other.parse::<Number>()) else {
        return;
    };
    for number in [&one, &other] {
        assert_eq!(number.to_string().parse().as_ref(), Ok(number));
        if let Some(int) = number.to_i64() {
            assert_eq!(Number::from(int), *number);
        }
        if let Some(int) = number.to_u64() {
            assert_eq!(Number::from(int), *number);
        }
        let float = number.to_f64();
        let exact = Number::from_f64(float).expect("a number is never NaN");
        assert_eq!(exact.to_f64(), float);
    }
    let order = one.cmp(&other);
    assert_eq!(other.cmp(&one), order.reverse());
    assert_eq!(order.is_eq(), one == other);
    // Rounding may make two floats equal, but never swaps them.
    let floats = one
        .to_f64()
        .partial_cmp(&other.to_f64())
        .expect("a number is never NaN");
    assert!(floats == order || floats.is_eq());
}

/// Types in their JSON form.
pub fn type_json(data: &[u8]) {
    let Ok(ty) = Type::from_json(data) else {
        return;
    };
    let written = ty.to_json();
    assert_eq!(Type::from_json(&written).as_ref(), Ok(&ty));
    assert!(!ty.to_string().is_empty());
    let null = Value::Null.to_msgpack(&ty).expect("every type has null");
    assert_eq!(Value::from_msgpack(&null, &ty), Ok(Value::Null));
}

/// libvirt's packets.
pub fn libvirt_packet(data: &[u8]) {
    let mut rest = data;
    let outcome = read(&mut rest).now_or_never().expect("all bytes are there");
    let Ok(packet) = outcome else { return };
    let length = HEAD + packet.payload.len();
    let written = frame(&packet.header, &packet.payload).expect("it came in one packet");
    assert_eq!(written, data[..length]);
    assert_eq!(rest, &data[length..]);
}

/// What libvirt's packets carry: a byte that chooses the message, then its bytes.
pub fn libvirt_xdr(data: &[u8]) {
    let Some((choice, bytes)) = chosen(data, 14) else {
        return;
    };
    match choice {
        0 => drop(whole::<RemoteError>(bytes).map(|error| error.to_string())),
        1 => drop(whole::<Vec<DomainStats>>(bytes)),
        2 => drop(whole::<NodeInfo>(bytes)),
        3 => same::<Header>(bytes),
        4 => same::<Domain>(bytes),
        5 => same::<(Pool, u32)>(bytes),
        6 => same::<Volume>(bytes),
        7 => same::<PoolInfo>(bytes),
        8 => same::<VolumeInfo>(bytes),
        9 => same::<Interface>(bytes),
        10 => same::<(DomainState, i32)>(bytes),
        11 => same::<Option<String>>(bytes),
        12 => same_list::<Domain>(bytes),
        _ => same_list::<i32>(bytes),
    }
}

/// libvirt's documents: what a host is, and what guests on it can be.
pub fn libvirt_document(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    // A document is the one or the other.
    assert!(HostFacts::parse(text).is_none() || Guests::parse(text).is_none());
}

/// known_hosts files, asked about a host.
pub fn known_hosts(data: &[u8]) {
    let file = KnownHosts::new("known_hosts", data);
    let lines = data.split(|&byte| byte == b'\n').count();
    for port in [22, 2222] {
        let records = file.about(&HostName::new("kvm1.lan", port));
        for skipped in records.skipped() {
            assert!(
                (1..=lines).contains(&skipped.line),
                "line {} of {lines}",
                skipped.line
            );
            assert!(!skipped.why.to_string().is_empty());
        }
    }
}

fn same<T: Decode + Encode + PartialEq + Debug>(bytes: &[u8]) {
    let Ok(value) = whole::<T>(bytes) else { return };
    let mut encoder = Encoder::new();
    encoder.put(&value);
    let written = encoder.finish();
    // Padding may hold anything, so that the bytes may differ; their number may not.
    assert_eq!(written.len(), bytes.len());
    assert_eq!(whole::<T>(&written).as_ref(), Ok(&value));
}

fn same_list<T: Decode + Encode + PartialEq + Debug>(bytes: &[u8]) {
    let Ok(values) = whole::<Vec<T>>(bytes) else {
        return;
    };
    let mut encoder = Encoder::new();
    encoder.put(values.as_slice());
    let written = encoder.finish();
    assert_eq!(written.len(), bytes.len());
    assert_eq!(whole::<Vec<T>>(&written).as_ref(), Ok(&values));
}
