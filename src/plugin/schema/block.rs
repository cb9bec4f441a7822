//! Blocks: attributes and further blocks, nested in one way or another.
//!
//! Must not know how values travel. Invariant: no write-only attribute survives
//! [`Block::clear_write_only`], however deep it is.

use super::attribute::{Attribute, ObjectNesting, Shape};
use crate::plugin::types::Type;
use crate::plugin::value::Value;

/// The content of a schema or of one nested block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// The attributes, in the order documentation shows them.
    pub attributes: Vec<Attribute>,
    /// The nested blocks, in the order documentation shows them.
    pub blocks: Vec<NestedBlock>,
    /// What it is for, in Markdown.
    pub description: String,
    /// Set where it is deprecated; the message says what to use instead and may be empty.
    pub deprecated: Option<String>,
    /// Whether the provider may set the block where the configuration has none (Terraform 1.16+).
    pub computed: bool,
}

impl Block {
    /// An empty block.
    pub fn new() -> Self {
        Self::default()
    }

    /// With one more attribute.
    #[must_use]
    pub fn attribute(mut self, attribute: Attribute) -> Self {
        self.attributes.push(attribute);
        self
    }

    /// With more attributes.
    #[must_use]
    pub fn attributes(mut self, attributes: impl IntoIterator<Item = Attribute>) -> Self {
        self.attributes.extend(attributes);
        self
    }

    /// With one more nested block.
    #[must_use]
    pub fn block(mut self, block: NestedBlock) -> Self {
        self.blocks.push(block);
        self
    }

    /// With more nested blocks.
    #[must_use]
    pub fn blocks(mut self, blocks: impl IntoIterator<Item = NestedBlock>) -> Self {
        self.blocks.extend(blocks);
        self
    }

    /// With a description, in Markdown.
    #[must_use]
    pub fn describe(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    /// Deprecated, with what to use instead.
    #[must_use]
    pub fn deprecate(mut self, message: impl Into<String>) -> Self {
        self.deprecated = Some(message.into());
        self
    }

    /// The attribute of that name.
    pub fn find_attribute(&self, name: &str) -> Option<&Attribute> {
        self.attributes.iter().find(|attribute| attribute.name == name)
    }

    /// The nested block of that name.
    pub fn find_block(&self, name: &str) -> Option<&NestedBlock> {
        self.blocks.iter().find(|block| block.name == name)
    }

    /// The type of the block's value. A list or map of blocks in which `dynamic` occurs is itself
    /// `dynamic`, because its elements may then differ in type.
    pub fn ty(&self) -> Type {
        let attributes = self
            .attributes
            .iter()
            .map(|attribute| (attribute.name.clone(), attribute.ty()));
        let blocks = self.blocks.iter().map(|block| (block.name.clone(), block.ty()));
        Type::object(attributes.chain(blocks))
    }

    /// Makes every write-only attribute null, however deep: neither a plan nor a state may hold one.
    pub fn clear_write_only(&self, value: &mut Value) {
        if !self.has_write_only() {
            return;
        }
        clear_attributes(&self.attributes, value);
        for nested in &self.blocks {
            if let Some(slot) = value
                .as_map_mut()
                .and_then(|entries| entries.get_mut(&nested.name))
            {
                let one = matches!(nested.nesting, Nesting::Single | Nesting::Group);
                each(slot, one, |content| nested.block.clear_write_only(content));
            }
        }
    }

    /// Whether an attribute in the block, however deep, is write-only.
    pub fn has_write_only(&self) -> bool {
        self.attributes.iter().any(Attribute::has_write_only)
            || self.blocks.iter().any(|nested| nested.block.has_write_only())
    }
}

fn clear_attributes(attributes: &[Attribute], value: &mut Value) {
    let Some(entries) = value.as_map_mut() else { return };
    for attribute in attributes.iter().filter(|attribute| attribute.has_write_only()) {
        let Some(slot) = entries.get_mut(&attribute.name) else {
            continue;
        };
        match &attribute.shape {
            _ if attribute.write_only => *slot = Value::Null,
            Shape::Plain(_) => {}
            Shape::Nested(object) => {
                let one = object.nesting == ObjectNesting::Single;
                each(slot, one, |content| clear_attributes(&object.attributes, content));
            }
        }
    }
}

/// Visits the one object, or each of a collection.
fn each(slot: &mut Value, one: bool, visit: impl FnMut(&mut Value)) {
    let mut visit = visit;
    match slot {
        Value::List(items) => items.iter_mut().for_each(visit),
        Value::Map(entries) if !one => entries.values_mut().for_each(visit),
        other => visit(other),
    }
}

/// How the blocks of one name are collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Nesting {
    /// At most one; an object, or null where there is none.
    Single,
    /// At most one; always an object, its attributes null where there is no block.
    Group,
    /// A list, empty where there is none.
    List,
    /// A set, empty where there is none.
    Set,
    /// A map whose keys are the blocks' labels, empty where there is none.
    Map,
}

/// Blocks of one name inside another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NestedBlock {
    /// Its name.
    pub name: String,
    /// The content of each.
    pub block: Block,
    /// How they are collected.
    pub nesting: Nesting,
    /// The least number of blocks (list and set; 1 makes a single one required).
    pub min: i64,
    /// The greatest number of blocks (list and set; 0 is no limit).
    pub max: i64,
}

impl NestedBlock {
    /// Blocks without bounds on their number.
    pub fn new(name: impl Into<String>, nesting: Nesting, block: Block) -> Self {
        Self {
            name: name.into(),
            block,
            nesting,
            min: 0,
            max: 0,
        }
    }

    /// At most one block; null where there is none.
    pub fn single(name: impl Into<String>, block: Block) -> Self {
        Self::new(name, Nesting::Single, block)
    }

    /// At most one block; an object of nulls where there is none.
    pub fn group(name: impl Into<String>, block: Block) -> Self {
        Self::new(name, Nesting::Group, block)
    }

    /// A list of blocks.
    pub fn list(name: impl Into<String>, block: Block) -> Self {
        Self::new(name, Nesting::List, block)
    }

    /// A set of blocks.
    pub fn set(name: impl Into<String>, block: Block) -> Self {
        Self::new(name, Nesting::Set, block)
    }

    /// Blocks with one label each.
    pub fn map(name: impl Into<String>, block: Block) -> Self {
        Self::new(name, Nesting::Map, block)
    }

    /// At least one is required (single, list and set).
    #[must_use]
    pub fn required(mut self) -> Self {
        self.min = self.min.max(1);
        if self.nesting == Nesting::Single {
            self.max = 1;
        }
        self
    }

    /// With bounds on the number of blocks (list and set); a `max` of 0 is no limit.
    #[must_use]
    pub fn bounds(mut self, min: i64, max: i64) -> Self {
        self.min = min;
        self.max = max;
        self
    }

    /// The type of the value that holds all blocks of this name.
    pub fn ty(&self) -> Type {
        let object = self.block.ty();
        match self.nesting {
            Nesting::Single | Nesting::Group => object,
            Nesting::List | Nesting::Map if object.has_dynamic() => Type::Dynamic,
            Nesting::List => Type::list(object),
            Nesting::Set => Type::set(object),
            Nesting::Map => Type::map(object),
        }
    }
}
