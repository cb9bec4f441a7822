//! A schema made ready for the codecs: its type, and what nested blocks ask for beyond a type.
//!
//! Must not know bytes. Two rules of blocks are no matter of types: where there is no block, a list,
//! set or map of blocks is empty and a group is an object of nulls, never null; and a list or map of
//! blocks in which `dynamic` occurs travels as a tuple or object, for its elements may differ in
//! type. Invariant: a provider never sees either: it reads and writes such blocks as any others.

use std::collections::BTreeMap;

use super::CodecError;
use crate::plugin::diagnostics::Step;
use crate::plugin::schema::{Block, IdentitySchema, NestedBlock, Nesting, Schema};
use crate::plugin::types::Type;
use crate::plugin::value::Value;

/// A schema made ready for the codecs.
#[derive(Debug)]
pub(crate) struct Layout {
    ty: Type,
    blocks: Vec<BlockLayout>,
}

/// The nested blocks of one name.
#[derive(Debug)]
struct BlockLayout {
    name: String,
    nesting: Nesting,
    /// Of one block.
    content: Layout,
    /// Whether the blocks travel as a tuple or object.
    dynamic: bool,
}

impl Layout {
    pub(crate) fn of(schema: &Schema) -> Self {
        Self::of_block(&schema.block)
    }

    pub(crate) fn of_identity(schema: &IdentitySchema) -> Self {
        Self {
            ty: schema.ty(),
            blocks: Vec::new(),
        }
    }

    fn of_block(block: &Block) -> Self {
        Self {
            ty: block.ty(),
            blocks: block.blocks.iter().map(BlockLayout::of).collect(),
        }
    }

    pub(crate) fn ty(&self) -> &Type {
        &self.ty
    }

    /// What a provider reads, from what was received.
    pub(crate) fn received(&self, mut value: Value) -> Value {
        self.received_in_place(&mut value);
        value
    }

    fn received_in_place(&self, value: &mut Value) {
        let Value::Map(entries) = value else { return };
        for block in &self.blocks {
            let slot = entries.entry(block.name.clone()).or_default();
            if block.dynamic {
                block.unwrap(slot);
            }
            block.fill(slot);
            block.each(slot, &mut |content, item| content.received_in_place(item));
        }
    }

    /// What is sent, from what a provider wrote.
    pub(crate) fn sent(&self, mut value: Value) -> Result<Value, CodecError> {
        self.sent_in_place(&mut value)?;
        Ok(value)
    }

    fn sent_in_place(&self, value: &mut Value) -> Result<(), CodecError> {
        let Value::Map(entries) = value else { return Ok(()) };
        for block in &self.blocks {
            let slot = entries.entry(block.name.clone()).or_default();
            block.fill(slot);
            let mut result = Ok(());
            block.each(slot, &mut |content, item| {
                if result.is_ok() {
                    result = content.sent_in_place(item);
                }
            });
            let within = |error: CodecError| error.within(Step::Attribute(block.name.clone()));
            result.map_err(within)?;
            if block.dynamic {
                block.wrap(slot).map_err(within)?;
            }
        }
        Ok(())
    }

    /// The value of a block that is not there, in a group.
    fn absent(&self) -> Value {
        let mut value = match &self.ty {
            Type::Object(attributes, _) => {
                Value::object(attributes.keys().map(|name| (name.clone(), Value::Null)))
            }
            _ => Value::Null,
        };
        self.received_in_place(&mut value);
        value
    }
}

impl BlockLayout {
    fn of(nested: &NestedBlock) -> Self {
        Self {
            name: nested.name.clone(),
            nesting: nested.nesting,
            content: Layout::of_block(&nested.block),
            dynamic: nested.ty() == Type::Dynamic,
        }
    }

    /// Puts what stands for "no block" where there is null.
    fn fill(&self, slot: &mut Value) {
        if *slot != Value::Null {
            return;
        }
        match self.nesting {
            Nesting::Single => {}
            Nesting::Group => *slot = self.content.absent(),
            Nesting::List | Nesting::Set => *slot = Value::List(Vec::new()),
            Nesting::Map => *slot = Value::Map(BTreeMap::new()),
        }
    }

    /// Visits each block.
    fn each(&self, slot: &mut Value, visit: &mut dyn FnMut(&Layout, &mut Value)) {
        match (self.nesting, slot) {
            (Nesting::Single | Nesting::Group, one) => visit(&self.content, one),
            (Nesting::List | Nesting::Set, Value::List(items)) => {
                items.iter_mut().for_each(|item| visit(&self.content, item));
            }
            (Nesting::Map, Value::Map(entries)) => {
                entries.values_mut().for_each(|item| visit(&self.content, item));
            }
            // Unknown, or a mistake that the codec reports.
            _ => {}
        }
    }

    /// From a tuple or object of blocks to a list or map of them.
    fn unwrap(&self, slot: &mut Value) {
        let Value::Dynamic(ty, inner) = slot else { return };
        let (ty, inner) = (
            std::mem::replace(&mut **ty, Type::Dynamic),
            std::mem::take(&mut **inner),
        );
        let declared = self.content.ty();
        *slot = match (inner, ty) {
            (Value::List(items), Type::Tuple(types)) => Value::List(
                items
                    .into_iter()
                    .zip(&types)
                    .map(|(item, ty)| declare(item, declared, ty))
                    .collect(),
            ),
            (Value::List(items), Type::List(ty)) => Value::List(
                items
                    .into_iter()
                    .map(|item| declare(item, declared, &ty))
                    .collect(),
            ),
            (Value::Map(entries), Type::Object(types, _)) => {
                let entries = entries.into_iter().map(|(key, item)| {
                    let ty = types.get(&key).unwrap_or(declared);
                    let item = declare(item, declared, ty);
                    (key, item)
                });
                Value::Map(entries.collect())
            }
            (Value::Map(entries), Type::Map(ty)) => Value::Map(
                entries
                    .into_iter()
                    .map(|(key, item)| (key, declare(item, declared, &ty)))
                    .collect(),
            ),
            (other, _) => other,
        };
    }

    /// From a list or map of blocks to a tuple or object of them.
    fn wrap(&self, slot: &mut Value) -> Result<(), CodecError> {
        let declared = self.content.ty();
        let (ty, value) = match std::mem::take(slot) {
            Value::List(items) => {
                let mut types = Vec::with_capacity(items.len());
                let mut plain = Vec::with_capacity(items.len());
                for (i, item) in items.into_iter().enumerate() {
                    types.push(concrete(&item, declared).map_err(|e| e.within(Step::Index(i as i64)))?);
                    plain.push(undeclare(item, declared));
                }
                (Type::Tuple(types), Value::List(plain))
            }
            Value::Map(entries) => {
                let mut types = BTreeMap::new();
                let mut plain = BTreeMap::new();
                for (key, item) in entries {
                    let ty = concrete(&item, declared).map_err(|e| e.within(Step::Key(key.clone())))?;
                    types.insert(key.clone(), ty);
                    plain.insert(key, undeclare(item, declared));
                }
                (Type::Object(types, Default::default()), Value::Map(plain))
            }
            other => {
                *slot = other;
                return Ok(());
            }
        };
        *slot = Value::Dynamic(Box::new(ty), Box::new(value));
        Ok(())
    }
}

/// Puts the types that a value came with where its declared type says `dynamic`.
fn declare(value: Value, declared: &Type, came_as: &Type) -> Value {
    match (value, declared, came_as) {
        (value, Type::Dynamic, Type::Dynamic) => value,
        (value, Type::Dynamic, ty) => Value::Dynamic(Box::new(ty.clone()), Box::new(value)),
        (Value::List(items), Type::List(to) | Type::Set(to), Type::List(from) | Type::Set(from)) => {
            Value::List(items.into_iter().map(|item| declare(item, to, from)).collect())
        }
        (Value::List(items), Type::Tuple(to), Type::Tuple(from)) => Value::List(
            items
                .into_iter()
                .zip(to.iter().zip(from))
                .map(|(item, (to, from))| declare(item, to, from))
                .collect(),
        ),
        (Value::Map(entries), Type::Map(to), Type::Map(from)) => Value::Map(
            entries
                .into_iter()
                .map(|(key, item)| (key, declare(item, to, from)))
                .collect(),
        ),
        (Value::Map(entries), Type::Object(to, _), Type::Object(from, _)) => {
            let entries = entries.into_iter().map(|(key, item)| {
                let item = match (to.get(&key), from.get(&key)) {
                    (Some(to), Some(from)) => declare(item, to, from),
                    _ => item,
                };
                (key, item)
            });
            Value::Map(entries.collect())
        }
        (value, _, _) => value,
    }
}

/// The type of a value, with `dynamic` only where nothing better is known.
fn concrete(value: &Value, declared: &Type) -> Result<Type, CodecError> {
    Ok(match (value, declared) {
        (Value::Dynamic(ty, _), Type::Dynamic) => (**ty).clone(),
        (Value::List(items), Type::List(element)) => Type::list(common(items, element)?),
        (Value::List(items), Type::Set(element)) => Type::set(common(items, element)?),
        (Value::Map(entries), Type::Map(element)) => Type::map(common(entries.values(), element)?),
        (Value::List(items), Type::Tuple(elements)) if items.len() == elements.len() => Type::Tuple(
            items
                .iter()
                .zip(elements)
                .map(|(item, ty)| concrete(item, ty))
                .collect::<Result<_, _>>()?,
        ),
        (Value::Map(entries), Type::Object(attributes, optional)) => {
            let attributes = attributes.iter().map(|(name, ty)| {
                let value = entries.get(name).unwrap_or(&Value::Null);
                let ty = concrete(value, ty).map_err(|e| e.within(Step::Attribute(name.clone())))?;
                Ok((name.clone(), ty))
            });
            Type::Object(attributes.collect::<Result<_, CodecError>>()?, optional.clone())
        }
        (_, declared) => declared.clone(),
    })
}

/// The one type of all elements of a collection.
fn common<'a>(items: impl IntoIterator<Item = &'a Value>, declared: &Type) -> Result<Type, CodecError> {
    let mut types = items.into_iter().map(|item| concrete(item, declared));
    let Some(first) = types.next().transpose()? else {
        return Ok(declared.clone());
    };
    for ty in types {
        if ty? != first {
            return Err(CodecError::new("the elements of one collection differ in type"));
        }
    }
    Ok(first)
}

/// Takes the types off again: they are said once, in front of the whole.
fn undeclare(value: Value, declared: &Type) -> Value {
    match (value, declared) {
        (Value::Dynamic(_, inner), Type::Dynamic) => *inner,
        (Value::List(items), Type::List(element) | Type::Set(element)) => {
            Value::List(items.into_iter().map(|item| undeclare(item, element)).collect())
        }
        (Value::List(items), Type::Tuple(elements)) if items.len() == elements.len() => Value::List(
            items
                .into_iter()
                .zip(elements)
                .map(|(item, ty)| undeclare(item, ty))
                .collect(),
        ),
        (Value::Map(entries), Type::Map(element)) => Value::Map(
            entries
                .into_iter()
                .map(|(key, item)| (key, undeclare(item, element)))
                .collect(),
        ),
        (Value::Map(entries), Type::Object(attributes, _)) => {
            let entries = entries.into_iter().map(|(name, item)| {
                let item = match attributes.get(&name) {
                    Some(ty) => undeclare(item, ty),
                    None => item,
                };
                (name, item)
            });
            Value::Map(entries.collect())
        }
        (value, _) => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::schema::Attribute;

    fn dynamic(ty: Type, value: impl Into<Value>) -> Value {
        Value::Dynamic(Box::new(ty), Box::new(value.into()))
    }

    fn any() -> Block {
        Block::new().attribute(Attribute::new("any", Type::Dynamic))
    }

    #[test]
    fn where_there_is_no_block_each_nesting_has_its_own_nothing() {
        let text = || Block::new().attribute(Attribute::string("text"));
        let inner = text().block(NestedBlock::list("deep", text()));
        let block = Block::new().blocks([
            NestedBlock::single("single", text()),
            NestedBlock::group("group", inner),
            NestedBlock::list("list", text()),
            NestedBlock::set("set", text()),
            NestedBlock::map("map", text()),
        ]);
        let layout = Layout::of(&Schema::new(block));
        let empty = Value::Map(BTreeMap::new());
        let filled = layout.received(empty.clone());
        assert_eq!(filled.get("single"), &Value::Null);
        let group = Value::object([("text", Value::Null), ("deep", Value::List(vec![]))]);
        assert_eq!(filled.get("group"), &group);
        assert_eq!(filled.get("list"), &Value::List(vec![]));
        assert_eq!(filled.get("set"), &Value::List(vec![]));
        assert_eq!(filled.get("map"), &Value::Map(BTreeMap::new()));
        assert_eq!(layout.sent(empty), Ok(filled));
        assert_eq!(
            layout.received(Value::Null),
            Value::Null,
            "a resource that is not there has no blocks"
        );
    }

    #[test]
    fn blocks_of_different_types_travel_as_a_tuple_or_an_object() {
        let block = Block::new().blocks([NestedBlock::list("list", any()), NestedBlock::map("map", any())]);
        let layout = Layout::of(&Schema::new(block));
        assert_eq!(
            layout.ty(),
            &Type::object([("list", Type::Dynamic), ("map", Type::Dynamic)])
        );
        let own = Value::object([
            (
                "list",
                Value::from(vec![
                    Value::object([("any", dynamic(Type::Bool, true))]),
                    Value::object([("any", dynamic(Type::list(Type::String), vec!["x"]))]),
                    Value::object([("any", Value::Null)]),
                ]),
            ),
            (
                "map",
                Value::object([("k", Value::object([("any", dynamic(Type::Number, 1i64))]))]),
            ),
        ]);
        let any_of = |ty| Type::object([("any", ty)]);
        let tuple = Type::Tuple(vec![
            any_of(Type::Bool),
            any_of(Type::list(Type::String)),
            any_of(Type::Dynamic),
        ]);
        let items = vec![
            Value::object([("any", Value::from(true))]),
            Value::object([("any", Value::from(vec!["x"]))]),
            Value::object([("any", Value::Null)]),
        ];
        let sent = Value::object([
            ("list", dynamic(tuple, items)),
            (
                "map",
                dynamic(
                    Type::object([("k", any_of(Type::Number))]),
                    Value::object([("k", Value::object([("any", 1i64)]))]),
                ),
            ),
        ]);
        assert_eq!(layout.sent(own.clone()), Ok(sent.clone()));
        assert_eq!(layout.received(sent), own);
    }

    #[test]
    fn such_blocks_nest() {
        let outer = Block::new().block(NestedBlock::list("inner", any()));
        let layout = Layout::of(&Schema::new(
            Block::new().block(NestedBlock::list("outer", outer)),
        ));
        let inner = Value::object([("any", dynamic(Type::Bool, true))]);
        let own = Value::object([("outer", vec![Value::object([("inner", vec![inner])])])]);
        let sent = layout.sent(own.clone()).unwrap();
        let bytes = crate::plugin::codec::msgpack::encode(&sent, layout.ty()).unwrap();
        let back = crate::plugin::codec::msgpack::decode(&bytes, layout.ty()).unwrap();
        assert_eq!(layout.received(back), own);
    }

    #[test]
    fn unknown_blocks_stay_unknown() {
        let layout = Layout::of(&Schema::new(Block::new().block(NestedBlock::list("list", any()))));
        let unknown = Value::object([("list", Value::unknown())]);
        assert_eq!(layout.received(unknown.clone()), unknown);
        assert_eq!(layout.sent(unknown.clone()), Ok(unknown));
    }

    #[test]
    fn the_elements_of_one_collection_must_agree() {
        let list = Block::new().attribute(Attribute::list("any", Type::Dynamic));
        let layout = Layout::of(&Schema::new(Block::new().block(NestedBlock::list("list", list))));
        let mixed = vec![dynamic(Type::Bool, true), dynamic(Type::String, "x")];
        let own = Value::object([("list", vec![Value::object([("any", mixed)])])]);
        let error = layout.sent(own).unwrap_err();
        assert_eq!(error.path().to_string(), "list[0].any");
    }
}
