//! The words in which every backend refuses, so that one mistake reads alike on all of them.
//!
//! It must not know how a backend stores a mark. Invariant: each text names the instance by the id
//! a user writes and ends with the way out.

use super::disagreement::{disagreements, lines};
use super::error::Error;
use super::mark::Mark;
use super::model::{Incarnation, Installation, InstanceId, NativeId, Target};
use super::spec::{Fact, Facts};

/// A second create of what some state already holds.
#[must_use]
pub fn handed_over(id: &InstanceId, mark: &Mark) -> Error {
    Error::permanent(format!(
        "\"{id}\" exists already and was handed over to a state. If no state holds it, import it, \
         with the resource's own address in `to`:\n\n{}\n\n\
         If the resource was renamed, add a `moved` block. If `create_before_destroy` is set, the \
         replacement needs another name. With `adopt = \"same_spec\"` in the provider's configuration \
         create takes over what has the same specification.",
        import_block(id, mark)
    ))
}

/// A create under a policy that adopts nothing, of what an earlier create left pending.
#[must_use]
pub fn never_adopted(id: &InstanceId) -> Error {
    Error::permanent(format!(
        "\"{id}\" exists already: an earlier create of the same specification was cut off, and \
         `adopt = \"never\"` forbids to finish it. Set `adopt = \"interrupted\"`, or remove it with `gc`."
    ))
}

/// A create of another specification, `asked`, under a name that is taken.
#[must_use]
pub fn other_specification(id: &InstanceId, mark: &Mark, asked: &Facts) -> Error {
    let differing = disagreements(&mark.facts, asked);
    let differing = if differing.is_empty() {
        // Another release may hash the same facts in another way.
        format!(
            "\n  the hash of all: there {}, asked for {}",
            mark.spec_sha256,
            asked.sha256()
        )
    } else {
        lines(&differing)
    };
    let (whose, way_out) = if mark.pending {
        (
            "left unfinished by an earlier create",
            "Ask for what is there, and apply finishes it; or remove it with `gc`.".to_owned(),
        )
    } else {
        (
            "held by a state",
            format!(
                "Destroy it first, or choose another name; under `create_before_destroy` a replacement always \
                 needs one. If no state holds it, import it, with the \
                 resource's own address in `to`; the plan then replaces it:\n\n{}",
                import_block(id, mark)
            ),
        )
    };
    Error::permanent(format!(
        "\"{id}\" exists already with another specification, {whose}:\n{differing}\n\n{way_out}"
    ))
}

/// What brings an instance into a state.
fn import_block(id: &InstanceId, mark: &Mark) -> String {
    format!(
        "import {{\n  to = egress_proxy.{}\n  id = \"{id}\"\n}}",
        mark.key.name
    )
}

/// An instance that belongs to another installation.
#[must_use]
pub fn other_installation(id: &InstanceId, theirs: &Installation, ours: &Installation) -> Error {
    Error::permanent(format!(
        "\"{id}\" belongs to the installation \"{theirs}\", not to \"{ours}\". If the installation was \
         renamed, run `terraform-provider-egress adopt --from-installation {theirs} {id}`; if not, \
         choose another name."
    ))
}

/// Something of that name without our mark.
#[must_use]
pub fn unmarked(id: &InstanceId) -> Error {
    Error::permanent(format!(
        "\"{id}\" exists but carries no mark of this provider: it was made by something else, or its \
         mark was removed. If it is to be managed here, run `terraform-provider-egress adopt {id}`."
    ))
}

/// A resume of an instance that is not there any more, or not in a state to be resumed.
#[must_use]
pub fn plan_again(id: &InstanceId, found: &str) -> Error {
    Error::permanent(format!(
        "\"{id}\" changed after the plan: {found}. Nothing was done; plan again."
    ))
}

/// The answer of `get` where another incarnation took the place of the one a state holds.
#[must_use]
pub fn replaced(id: &InstanceId, mark: &Mark) -> Error {
    Error::not_found(whose(id, mark)).noteworthy()
}

/// Whose instance took the place of the one that was asked for.
#[must_use]
pub fn whose(id: &InstanceId, mark: &Mark) -> String {
    format!(
        "\"{id}\" is another instance by now: incarnation {} of installation \"{}\", which this state \
         does not hold.",
        mark.incarnation, mark.key.installation
    )
}

/// The answer of `get` where nothing is left.
#[must_use]
pub fn absent(id: &InstanceId) -> Error {
    Error::not_found(format!("\"{id}\" does not exist."))
}

/// Absence that proves nothing, since something else stands behind the backend's name.
#[must_use]
pub fn other_target(id: &InstanceId, fact: &str, recorded: &str, found: &str) -> Error {
    Error::permanent(format!(
        "\"{id}\" was not found, but the state recorded it on {fact} \"{recorded}\", and the backend now \
         leads to {fact} \"{found}\". Point the backend at the old one again; if it was rebuilt on \
         purpose, remove the resource with `terraform state rm`."
    ))
}

/// Refuses to conclude absence on another target than the recorded one.
///
/// # Errors
/// [`other_target`], where the two are known to differ.
pub fn same_target(id: &InstanceId, recorded: Option<&Target>, found: &Target) -> Result<(), Error> {
    match recorded.and_then(|recorded| recorded.conflict(found)) {
        Some((fact, recorded, found)) => Err(other_target(id, fact, recorded, found)),
        None => Ok(()),
    }
}

/// An id that the backend cannot have given.
#[must_use]
pub fn malformed(id: &NativeId, grammar: &str) -> Error {
    Error::permanent(format!(
        "the id \"{id}\" is not one of this backend: it must be {grammar}."
    ))
}

/// A part (a host, a zone) that the configuration does not name.
#[must_use]
pub fn not_configured(id: &InstanceId, kind: &str, part: &str) -> Error {
    Error::permanent(format!(
        "\"{id}\" lies on the {kind} \"{part}\", which the configuration of the backend \"{}\" does not \
         name. Restore the entry {kind} \"{part}\".",
        id.backend
    ))
}

/// An own object that went away while an operation worked on it.
#[must_use]
pub fn vanished(id: &InstanceId, incarnation: Incarnation) -> Error {
    Error::transient(format!(
        "\"{id}\" went away, or another operation took it over, while incarnation {incarnation} of it \
         was being made."
    ))
}

/// An instance that is being deleted just now.
#[must_use]
pub fn leaving(id: &InstanceId) -> Error {
    Error::transient(format!("\"{id}\" is still being deleted."))
}

/// An adoption of what carries our own mark.
#[must_use]
pub fn ours_already(id: &InstanceId, mark: &Mark) -> Error {
    Error::permanent(format!(
        "\"{id}\" carries the mark of the installation \"{}\" already: there is nothing to adopt. If no \
         state holds it, import it with `terraform import`, or with what \
         `terraform-provider-egress import-by-tag` prints.",
        mark.key.installation
    ))
}

/// An adoption from an installation of what carries no mark.
#[must_use]
pub fn nobodys(id: &InstanceId, from: &Installation) -> Error {
    Error::permanent(format!(
        "\"{id}\" carries no mark, not even that of the installation \"{from}\": leave \
         `--from-installation` out if it is to be managed here all the same."
    ))
}

/// An adoption that states what the instance itself shows to be otherwise.
#[must_use]
pub fn contradicted(id: &InstanceId, facts: &[Fact]) -> Error {
    let facts: Vec<_> = facts.iter().map(|fact| fact.as_str()).collect();
    Error::permanent(format!(
        "\"{id}\" itself shows another {} than was stated: leave that out.",
        facts.join(", ")
    ))
}

/// An adoption whose preview is out of date.
#[must_use]
pub fn shown_before(id: &InstanceId) -> Error {
    Error::permanent(format!(
        "\"{id}\" changed since it was shown what would be written on it. Nothing was done; run \
         `adopt` again."
    ))
}

/// An adoption of something that this provider could not have made, whose facts nobody can tell.
#[must_use]
pub fn not_adoptable(id: &InstanceId, why: &str) -> Error {
    Error::permanent(format!("\"{id}\" cannot be adopted: {why}."))
}
