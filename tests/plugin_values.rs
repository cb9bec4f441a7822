//! Properties of values: what is written is read back, whatever it is, and no input breaks the reader.

use std::collections::BTreeMap;
use std::str::FromStr as _;

use egress::plugin::types::Type;
use egress::plugin::value::{Bound, Number, Refinements, Value};
use proptest::prelude::*;

fn number() -> impl Strategy<Value = Number> {
    let decimal = (
        "-?[0-9]{1,60}",
        proptest::option::of("[0-9]{1,60}"),
        -3000i64..3000,
    )
        .prop_map(|(whole, fraction, e)| {
            let fraction = fraction.map(|digits| format!(".{digits}")).unwrap_or_default();
            Number::from_str(&format!("{whole}{fraction}e{e}")).expect("a number")
        });
    prop_oneof![
        any::<i64>().prop_map(Number::from),
        any::<u64>().prop_map(Number::from),
        any::<f64>().prop_filter_map("not a number", Number::from_f64),
        decimal,
    ]
}

fn refinements() -> impl Strategy<Value = Refinements> {
    // Short ones: where more than a kilobyte is said of a value, nothing is sent of it.
    let bound = (any::<i64>(), any::<bool>()).prop_map(|(number, inclusive)| Bound {
        number: Number::from(number),
        inclusive,
    });
    let parts = (
        any::<bool>(),
        proptest::option::of("[a-z]{1,20}"),
        proptest::option::of(bound),
        proptest::option::of(0u64..99),
    );
    parts.prop_map(|(not_null, prefix, bound, length)| {
        let mut refinements = Refinements::default();
        if not_null {
            refinements = refinements.not_null();
        }
        if let Some(prefix) = prefix {
            refinements = refinements.with_prefix(prefix);
        }
        if let Some(bound) = bound {
            refinements = refinements.with_lower(bound.clone()).with_upper(bound);
        }
        match length {
            Some(length) => refinements.with_min_length(length).with_max_length(length + 1),
            None => refinements,
        }
    })
}

fn ty() -> impl Strategy<Value = Type> {
    let leaf = prop_oneof![
        Just(Type::Bool),
        Just(Type::Number),
        Just(Type::String),
        Just(Type::Dynamic)
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(Type::list),
            inner.clone().prop_map(Type::set),
            inner.clone().prop_map(Type::map),
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Type::Tuple),
            proptest::collection::btree_map("[a-z_]{1,8}", inner, 0..4).prop_map(Type::object),
        ]
    })
}

/// A value of a type; unknowns only where they are wanted.
fn value(ty: &Type, unknowns: bool) -> BoxedStrategy<Value> {
    let known: BoxedStrategy<Value> = match ty {
        Type::Bool => any::<bool>().prop_map(Value::Bool).boxed(),
        Type::Number => {
            let number = number().prop_filter("JSON has no infinity", move |n| unknowns || !n.is_infinite());
            number.prop_map(Value::Number).boxed()
        }
        Type::String => "[ -~äöü\u{1F980}]{0,40}".prop_map(Value::String).boxed(),
        Type::List(element) | Type::Set(element) => proptest::collection::vec(value(element, unknowns), 0..4)
            .prop_map(Value::List)
            .boxed(),
        Type::Map(element) => proptest::collection::btree_map("[a-z]{0,6}", value(element, unknowns), 0..4)
            .prop_map(Value::Map)
            .boxed(),
        Type::Tuple(elements) => elements
            .iter()
            .map(|ty| value(ty, unknowns))
            .collect::<Vec<_>>()
            .prop_map(Value::List)
            .boxed(),
        Type::Object(attributes, _) => {
            let names: Vec<_> = attributes.keys().cloned().collect();
            let values: Vec<_> = attributes.values().map(|ty| value(ty, unknowns)).collect();
            values
                .prop_map(move |values| {
                    Value::Map(names.iter().cloned().zip(values).collect::<BTreeMap<_, _>>())
                })
                .boxed()
        }
        Type::Dynamic => prop_oneof![
            Just(Type::Bool),
            Just(Type::list(Type::Number)),
            Just(Type::String)
        ]
        .prop_flat_map(move |own| {
            value(&own, unknowns).prop_map(move |v| Value::Dynamic(Box::new(own.clone()), Box::new(v)))
        })
        .boxed(),
    };
    if unknowns {
        prop_oneof![8 => known, 1 => Just(Value::Null), 1 => refinements().prop_map(Value::Unknown)].boxed()
    } else {
        prop_oneof![8 => known, 1 => Just(Value::Null)].boxed()
    }
}

fn typed(unknowns: bool) -> impl Strategy<Value = (Type, Value)> {
    ty().prop_flat_map(move |ty| value(&ty, unknowns).prop_map(move |value| (ty.clone(), value)))
}

/// An unknown value of which nothing is said is the same, however it came about.
fn plain(value: Value) -> Value {
    match value {
        Value::Unknown(refinements) if refinements.is_empty() => Value::unknown(),
        Value::List(items) => Value::List(items.into_iter().map(plain).collect()),
        Value::Map(entries) => Value::Map(
            entries
                .into_iter()
                .map(|(key, value)| (key, plain(value)))
                .collect(),
        ),
        Value::Dynamic(ty, inner) => Value::Dynamic(ty, Box::new(plain(*inner))),
        other => other,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn messagepack_gives_back_what_it_was_given((ty, value) in typed(true)) {
        let bytes = value.to_msgpack(&ty).expect("it fits");
        prop_assert_eq!(Value::from_msgpack(&bytes, &ty).expect("it fits"), plain(value));
    }

    #[test]
    fn json_gives_back_what_it_was_given((ty, value) in typed(false)) {
        let json = value.to_json(&ty).expect("it fits");
        prop_assert_eq!(Value::from_json(&json, &ty).expect("it fits"), value);
    }

    #[test]
    fn a_type_is_its_json(ty in ty()) {
        prop_assert_eq!(Type::from_json(&ty.to_json()).expect("a type"), ty);
    }

    #[test]
    fn a_number_is_its_text(number in number()) {
        prop_assert_eq!(Number::from_str(&number.to_string()).expect("a number"), number);
    }

    #[test]
    fn a_float_is_itself(float in any::<f64>().prop_filter("not a number", |f| !f.is_nan())) {
        // Zero has one sign here.
        prop_assert_eq!(Number::from_f64(float).expect("a number").to_f64(), float + 0.0);
    }

    #[test]
    fn numbers_are_ordered_as_integers_are(a in any::<i64>(), b in any::<i64>(), e in 0u32..30) {
        let scaled = |n: i64| Number::from_str(&format!("{n}e{e}")).expect("a number");
        prop_assert_eq!(scaled(a).cmp(&scaled(b)), a.cmp(&b));
        prop_assert_eq!(scaled(a) == scaled(b), a == b);
    }

    #[test]
    fn no_bytes_break_the_readers(ty in ty(), bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Value::from_msgpack(&bytes, &ty);
        let _ = Value::from_json(&bytes, &ty);
        let _ = Type::from_json(&bytes);
    }

    #[test]
    fn no_damage_to_a_value_breaks_the_reader((ty, value) in typed(true), at in any::<prop::sample::Index>(), with in any::<u8>()) {
        let mut bytes = value.to_msgpack(&ty).expect("it fits");
        let at = at.index(bytes.len());
        bytes[at] = with;
        if let Ok(read) = Value::from_msgpack(&bytes, &ty) {
            read.to_msgpack(&ty).expect("what was read fits");
        }
    }
}
