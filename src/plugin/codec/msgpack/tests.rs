//! The bytes that hosts write and read, one by one.

use super::*;
use crate::plugin::types::MAX_DEPTH;
use crate::plugin::value::{Bound, Nullness, Number, Refinements};

fn hex(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    (0..digits.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&digits[i..i + 2], 16).unwrap())
        .collect()
}

fn number(text: &str) -> Value {
    Value::Number(text.parse().unwrap())
}

#[test]
fn values_travel_as_go_cty_writes_them() {
    let object = Type::object([("a", Type::String), ("b", Type::Number)]);
    for (value, ty, bytes) in [
        (Value::Null, Type::String, "c0"),
        (Value::unknown(), Type::list(Type::String), "d4 00 00"),
        (true.into(), Type::Bool, "c3"),
        (5i64.into(), Type::Number, "05"),
        (Value::from(-5i64), Type::Number, "fb"),
        (i64::MIN.into(), Type::Number, "d3 8000000000000000"),
        (number("0.1"), Type::Number, "a3 30 2e 31"),
        (
            number("18446744073709551616"),
            Type::Number,
            "b4 3138343436373434303733373039353531363136",
        ),
        (
            Value::Number(Number::INFINITY),
            Type::Number,
            "cb 7ff0000000000000",
        ),
        (
            Value::Number(Number::NEG_INFINITY),
            Type::Number,
            "cb fff0000000000000",
        ),
        ("é".into(), Type::String, "a2 c3 a9"),
        (vec!["x", "y"].into(), Type::set(Type::String), "92 a1 78 a1 79"),
        (Value::List(vec![]), Type::Tuple(vec![]), "90"),
        (Value::object([("k", true)]), Type::map(Type::Bool), "81 a1 6b c3"),
        (
            Value::object([("a", Value::from("x")), ("b", Value::Null)]),
            object,
            "82 a1 61 a1 78 a1 62 c0",
        ),
        (
            Value::Dynamic(Box::new(Type::String), Box::new("x".into())),
            Type::Dynamic,
            "92 c4 08 22737472696e6722 a1 78",
        ),
        (
            Value::Dynamic(Box::new(Type::Bool), Box::new(Value::Null)),
            Type::Dynamic,
            "92 c4 06 22626f6f6c22 c0",
        ),
        (Value::unknown(), Type::Dynamic, "d4 00 00"),
        (
            Refinements::default().not_null().into(),
            Type::String,
            "c7 03 0c 81 01 c2",
        ),
        (
            Refinements::default().not_null().with_prefix("ab").into(),
            Type::String,
            "c7 07 0c 82 01 c2 02 a2 61 62",
        ),
        (
            Refinements::default()
                .with_lower(Bound {
                    number: Number::from(1u8),
                    inclusive: true,
                })
                .into(),
            Type::Number,
            "c7 05 0c 81 03 92 01 c3",
        ),
        (
            Refinements::default()
                .with_min_length(1)
                .with_max_length(9)
                .into(),
            Type::list(Type::Bool),
            "c7 05 0c 82 05 01 06 09",
        ),
    ] {
        let bytes = hex(bytes);
        assert_eq!(encode(&value, &ty).unwrap(), bytes, "{value:?}");
        assert_eq!(decode(&bytes, &ty), Ok(value));
    }
}

#[test]
fn every_spelling_of_a_number_is_read_exactly() {
    for (bytes, text) in [
        ("cc ff", "255"),
        ("cd ffff", "65535"),
        ("ce ffffffff", "4294967295"),
        ("cf ffffffffffffffff", "18446744073709551615"),
        ("d0 80", "-128"),
        ("d1 8000", "-32768"),
        ("d2 80000000", "-2147483648"),
        ("ca 3f000000", "0.5"),
        ("cb 3fe0000000000000", "0.5"),
        ("cb 4340000000000001", "9007199254740994"),
        ("ab 31 30 30 30 30 30 30 30 30 65 33", "1e11"),
    ] {
        assert_eq!(decode(&hex(bytes), &Type::Number), Ok(number(text)), "{bytes}");
    }
    assert!(
        decode(&hex("cb 7ff8000000000001"), &Type::Number).is_err(),
        "not a number"
    );
    assert!(decode(&hex("a1 78"), &Type::Number).is_err());
}

#[test]
fn any_short_extension_is_unknown_and_no_long_one_is() {
    for bytes in ["d4 00 00", "d4 05 ff", "c7 00 00", "c7 01 0c 80"] {
        assert_eq!(decode(&hex(bytes), &Type::Bool), Ok(Value::unknown()), "{bytes}");
    }
    for bytes in ["d5 00 0000", "d6 05 00000000", "c7 03 05 81 01 c2"] {
        assert!(decode(&hex(bytes), &Type::Bool).is_err(), "{bytes}");
    }
}

#[test]
fn what_a_newer_host_says_of_an_unknown_is_passed_over() {
    // Key 99 with a nested value, then key 1.
    let bytes = hex("c7 0b 0c 82 63 91 81 a1 78 c4 01 ff 01 c2");
    assert_eq!(bytes.len(), 14);
    let Value::Unknown(refinements) = decode(&bytes, &Type::String).unwrap() else {
        panic!("unknown")
    };
    assert_eq!(refinements.nullness(), Some(Nullness::NotNull));
    let mut long = hex("c8 0401 0c");
    long.extend(vec![0x80; 0x401]);
    assert!(decode(&long, &Type::String).is_err(), "more than 1024 bytes");
}

#[test]
fn a_long_prefix_is_cut_between_characters() {
    let refined = Value::from(Refinements::default().with_prefix("ä".repeat(200)));
    let Value::Unknown(back) = decode(&encode(&refined, &Type::String).unwrap(), &Type::String).unwrap()
    else {
        panic!("unknown")
    };
    assert_eq!(back.prefix().map(str::len), Some(256));
}

#[test]
fn strings_and_keys_are_brought_to_normal_form_c() {
    let decomposed = hex("a3 65 cc81");
    assert_eq!(decode(&decomposed, &Type::String), Ok("é".into()));
    let map = hex("81 a3 65 cc81 c3");
    assert_eq!(
        decode(&map, &Type::map(Type::Bool)),
        Ok(Value::object([("é", true)]))
    );
}

#[test]
fn what_does_not_fit_is_told_with_its_place() {
    let ty = Type::object([("list", Type::list(Type::object([("n", Type::Number)])))]);
    let bytes = hex("81 a4 6c697374 92 81 a1 6e 01 81 a1 6e c3");
    let error = decode(&bytes, &ty).unwrap_err();
    assert_eq!(error.path().to_string(), "list[1].n");
    assert_eq!(error.problem, "a number was expected, but this is a boolean");
    for (ty, bytes, problem) in [
        (
            Type::object([("a", Type::Bool)]),
            "80",
            "1 attributes were expected, but there are 0",
        ),
        (
            Type::object([("a", Type::Bool)]),
            "81 a1 62 c3",
            "there is no such attribute",
        ),
        (
            Type::object([("a", Type::Bool), ("b", Type::Bool)]),
            "82 a1 61 c3 a1 61 c3",
            "a key occurs twice",
        ),
        (
            Type::Tuple(vec![Type::Bool]),
            "90",
            "1 elements were expected, but there are 0",
        ),
        (Type::String, "a2 ff ff", "it is not valid UTF-8"),
        (Type::String, "a2 61", "it ends too early"),
        (Type::String, "", "it ends too early"),
        (Type::Bool, "c3 c3", "there is more after its end"),
        (
            Type::Bool,
            "c1",
            "a boolean was expected, but this is not valid MessagePack",
        ),
        (
            Type::Dynamic,
            "91 c0",
            "a value of any type must be a type and a value",
        ),
    ] {
        assert_eq!(decode(&hex(bytes), &ty).unwrap_err().problem, problem, "{bytes}");
    }
}

#[test]
fn what_a_provider_must_not_send_is_told_with_its_place() {
    let ty = Type::object([("a", Type::map(Type::Bool))]);
    let wrong = Value::object([("a", Value::object([("k", "hunter2")]))]);
    let error = encode(&wrong, &ty).unwrap_err();
    assert_eq!(error.path().to_string(), r#"a["k"]"#);
    assert_eq!(
        error.problem,
        "a value of type bool was expected, but this is a string"
    );
    assert!(!format!("{:?}", error.returned("a state")).contains("hunter2"));
    assert!(encode(&Value::object([("b", true)]), &ty).is_err());
    assert_eq!(
        encode(&Value::object::<String, Value>([]), &ty).unwrap(),
        hex("81 a1 61 c0"),
        "what is left out is null"
    );
}

#[test]
fn hostile_input_costs_neither_stack_nor_memory() {
    // Lengths of four billion in a few bytes.
    for (ty, bytes) in [
        (Type::list(Type::Bool), "dd ffffffff"),
        (Type::map(Type::Bool), "df ffffffff"),
        (Type::String, "db ffffffff"),
        (Type::Number, "db ffffffff"),
        (Type::Bool, "c9 ffffffff 0c"),
        (Type::Dynamic, "92 c6 ffffffff"),
    ] {
        assert!(decode(&hex(bytes), &ty).is_err(), "{bytes}");
    }
    // A dynamic value in a list of dynamic values, and so on.
    let level = [&[0x92, 0xc4, 18][..], br#"["list","dynamic"]"#, &[0x91]].concat();
    let deep = level.repeat(50_000);
    assert_eq!(
        decode(&deep, &Type::Dynamic).unwrap_err().problem,
        "it nests too deep"
    );
    let mut value = Value::from(true);
    let mut ty = Type::Bool;
    for _ in 0..MAX_DEPTH {
        (value, ty) = (Value::List(vec![value]), Type::list(ty));
    }
    let bytes = encode(&value, &ty).unwrap();
    assert_eq!(decode(&bytes, &ty).as_ref(), Ok(&value));
    let (value, ty) = (Value::List(vec![value]), Type::list(ty));
    assert_eq!(encode(&value, &ty).unwrap_err().problem, "it nests too deep");
}
