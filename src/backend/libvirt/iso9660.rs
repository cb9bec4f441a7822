//! An ISO 9660 image of a few files in one folder, with Rock Ridge and Joliet.
//!
//! It must not know what the files are for. Invariants: the image is a multiple of 2,048 bytes long and
//! says its own length; every reader finds each file under its own name and byte for byte; the same
//! files make the same image.
//!
//! What is where, in sectors of 2,048 bytes:
//!
//! | sector | what |
//! |---|---|
//! | 0–15 | nothing |
//! | 16 | primary descriptor: names as of 1988, true names and modes by Rock Ridge |
//! | 17 | Joliet's descriptor: true names in UCS-2 |
//! | 18 | end of descriptors |
//! | 19–22 | path tables: primary and Joliet's, each little and big endian |
//! | 23, 24 | the folder, once for each descriptor |
//! | 25… | the files |

const SECTOR: usize = 2048;
const FIRST_PATH_TABLE: u32 = 19;
const FOLDER: u32 = 23;
const JOLIET_FOLDER: u32 = 24;
const FIRST_FILE: u32 = 25;

/// What a directory record holds before its name.
const RECORD_HEAD: usize = 33;
const IS_FOLDER: u8 = 2;
/// For the owner alone: files may hold secrets. The types are POSIX's.
const FILE_MODE: u32 = 0o100_400;
const FOLDER_MODE: u32 = 0o040_500;

/// A file of the image.
#[derive(Clone, Copy)]
pub struct File<'a> {
    /// Its name: letters of ASCII, digits, `-`, `_` and `.`, at most 64 of them.
    pub name: &'a str,
    /// What it holds.
    pub content: &'a [u8],
}

/// What the image cannot be made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// A name that is not told by all three kinds of names, or more of them than a sector holds.
    #[error("the names of the files do not fit into the image")]
    Names,
    /// Longer than an image can say.
    #[error("the files are larger than 1 GiB")]
    Size,
}

/// The most that all files may hold. The format's own limit is four times that.
const LARGEST: usize = 1 << 30;

/// Makes the image; `label` is its volume's.
///
/// # Errors
/// See [`Unfit`].
pub fn image(label: &str, files: &[File<'_>]) -> Result<Vec<u8>, Unfit> {
    let sound = |name: &str| {
        (1..=64).contains(&name.len())
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    // The standard wants records in the order of names, and no two alike.
    let mut files: Vec<Placed<'_>> = files.iter().map(Placed::of).collect();
    files.sort_by(|one, other| one.short.cmp(&other.short));
    let distinct = files.windows(2).all(|pair| pair[0].short != pair[1].short);
    if !distinct || !sound(label) || label.len() > 16 || !files.iter().all(|file| sound(file.name)) {
        return Err(Unfit::Names);
    }
    if files.iter().map(|file| file.content.len()).sum::<usize>() > LARGEST {
        return Err(Unfit::Size);
    }
    let mut next = FIRST_FILE;
    for file in &mut files {
        file.sector = next;
        next += sectors(file.content.len());
    }
    let mut image = Image(Vec::with_capacity(next as usize * SECTOR));
    image.0.resize(16 * SECTOR, 0);
    for tree in [Tree::Primary, Tree::Joliet] {
        let descriptor = descriptor(tree, label, next);
        image.put(16 + tree as u32, &descriptor);
    }
    image.put(18, b"\xffCD001\x01");
    for tree in [Tree::Primary, Tree::Joliet] {
        let first = tree.path_table();
        image.put(
            first,
            &path_table(tree.folder().to_le_bytes(), 1_u16.to_le_bytes()),
        );
        image.put(
            first + 1,
            &path_table(tree.folder().to_be_bytes(), 1_u16.to_be_bytes()),
        );
    }
    for tree in [Tree::Primary, Tree::Joliet] {
        let folder = folder(tree, &files);
        if folder.len() > SECTOR {
            return Err(Unfit::Names);
        }
        image.put(tree.folder(), &folder);
    }
    for file in &files {
        image.put(file.sector, file.content);
    }
    Ok(image.0)
}

/// The image as it grows, sector after sector.
struct Image(Vec<u8>);

impl Image {
    fn put(&mut self, sector: u32, bytes: &[u8]) {
        debug_assert_eq!(self.0.len(), sector as usize * SECTOR);
        self.0.extend_from_slice(bytes);
        self.0.resize(self.0.len().next_multiple_of(SECTOR), 0);
    }
}

/// A file with the place of its content and the name that it has in 1988.
struct Placed<'a> {
    name: &'a str,
    short: String,
    content: &'a [u8],
    sector: u32,
}

impl<'a> Placed<'a> {
    fn of(file: &File<'a>) -> Self {
        let plain: String = file
            .name
            .bytes()
            .map(|byte| match byte {
                b'a'..=b'z' => (byte - 32) as char,
                b'-' | b'.' => '_',
                other => other as char,
            })
            .take(27)
            .collect();
        Self {
            name: file.name,
            short: format!("{plain}.;1"),
            content: file.content,
            sector: 0,
        }
    }
}

/// The two descriptions of the one folder.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tree {
    Primary,
    Joliet,
}

impl Tree {
    fn folder(self) -> u32 {
        match self {
            Self::Primary => FOLDER,
            Self::Joliet => JOLIET_FOLDER,
        }
    }

    fn path_table(self) -> u32 {
        match self {
            Self::Primary => FIRST_PATH_TABLE,
            Self::Joliet => FIRST_PATH_TABLE + 2,
        }
    }
}

fn sectors(bytes: usize) -> u32 {
    // Bounded by LARGEST.
    bytes.div_ceil(SECTOR) as u32
}

/// A number as the standard wants it: in both orders.
fn both32(number: u32) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&number.to_le_bytes());
    bytes[4..].copy_from_slice(&number.to_be_bytes());
    bytes
}

fn both16(number: u16) -> [u8; 4] {
    let mut bytes = [0; 4];
    bytes[..2].copy_from_slice(&number.to_le_bytes());
    bytes[2..].copy_from_slice(&number.to_be_bytes());
    bytes
}

fn ucs2(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_be_bytes).collect()
}

/// Blanks up to a field's end, of the width that the tree's letters have.
fn padded(tree: Tree, text: &str, width: usize) -> Vec<u8> {
    let (mut bytes, blank): (Vec<u8>, &[u8]) = match tree {
        Tree::Primary => (text.as_bytes().to_vec(), b" "),
        Tree::Joliet => (ucs2(text), b"\0 "),
    };
    while bytes.len() < width {
        bytes.extend_from_slice(blank);
    }
    bytes.truncate(width);
    bytes
}

fn descriptor(tree: Tree, label: &str, length: u32) -> Vec<u8> {
    let mut text = Vec::with_capacity(SECTOR);
    text.push(match tree {
        Tree::Primary => 1,
        Tree::Joliet => 2,
    });
    text.extend_from_slice(b"CD001\x01\0");
    // The system, the volume.
    text.extend(padded(tree, "", 32));
    text.extend(padded(tree, label, 32));
    text.extend([0; 8]);
    text.extend(both32(length));
    // Joliet's mark: UCS-2 without further restrictions.
    let mut escape = [0; 32];
    if tree == Tree::Joliet {
        escape[..3].copy_from_slice(b"%/E");
    }
    text.extend(escape);
    text.extend(both16(1));
    text.extend(both16(1));
    text.extend(both16(SECTOR as u16));
    text.extend(both32(PATH_TABLE as u32));
    text.extend(tree.path_table().to_le_bytes());
    text.extend([0; 4]);
    text.extend((tree.path_table() + 1).to_be_bytes());
    text.extend([0; 4]);
    text.extend(record(b"\0", tree.folder(), SECTOR as u32, IS_FOLDER, &[]));
    // Volume set, publisher, preparer, application; the three files that tell about them.
    for width in [128, 128, 128, 128, 37, 37, 37] {
        text.extend(padded(tree, "", width));
    }
    // Made, changed, expires, takes effect: not said.
    for _ in 0..4 {
        text.extend(*b"0000000000000000\0");
    }
    text.push(1);
    text
}

/// The length of a path table of one folder.
const PATH_TABLE: usize = 10;

fn path_table(folder: [u8; 4], parent: [u8; 2]) -> [u8; PATH_TABLE] {
    let [a, b, c, d] = folder;
    [1, 0, a, b, c, d, parent[0], parent[1], 0, 0]
}

fn folder(tree: Tree, files: &[Placed<'_>]) -> Vec<u8> {
    let mut records = Vec::new();
    for (name, first) in [(b"\0", true), (b"\x01", false)] {
        let system = match tree {
            Tree::Primary => rock_ridge_folder(first),
            Tree::Joliet => Vec::new(),
        };
        records.extend(record(name, tree.folder(), SECTOR as u32, IS_FOLDER, &system));
    }
    for file in files {
        let length = file.content.len() as u32;
        let record = match tree {
            Tree::Primary => record(
                file.short.as_bytes(),
                file.sector,
                length,
                0,
                &rock_ridge_file(file.name),
            ),
            Tree::Joliet => record(&ucs2(file.name), file.sector, length, 0, &[]),
        };
        // A record never reaches over the end of a sector; image() refuses more than one.
        records.extend(record);
    }
    records
}

/// A directory record; `system` is what Rock Ridge adds.
fn record(name: &[u8], sector: u32, length: u32, flags: u8, system: &[u8]) -> Vec<u8> {
    let mut record = Vec::with_capacity(128);
    record.extend([0, 0]);
    record.extend(both32(sector));
    record.extend(both32(length));
    // 1970-01-01: the same files make the same image.
    record.extend([70, 1, 1, 0, 0, 0, 0]);
    record.extend([flags, 0, 0]);
    record.extend(both16(1));
    record.push(name.len() as u8);
    debug_assert_eq!(record.len(), RECORD_HEAD);
    record.extend_from_slice(name);
    if record.len() % 2 == 1 {
        record.push(0);
    }
    record.extend_from_slice(system);
    if record.len() % 2 == 1 {
        record.push(0);
    }
    record[0] = record.len() as u8;
    record
}

/// Mode, links, owner and group.
fn posix(mode: u32, links: u32) -> Vec<u8> {
    let mut field = b"PX\x24\x01".to_vec();
    field.extend(both32(mode));
    field.extend(both32(links));
    field.extend(both32(0));
    field.extend(both32(0));
    field
}

/// In the folder's own record: that Rock Ridge is used at all.
fn rock_ridge_folder(first: bool) -> Vec<u8> {
    let mut fields = Vec::new();
    if first {
        fields.extend(*b"SP\x07\x01\xbe\xef\0");
    }
    fields.extend(posix(FOLDER_MODE, 2));
    if first {
        // The extension by its name alone; its descriptions may be empty.
        fields.extend(*b"ER\x12\x01\x0a\0\0\x01RRIP_1991A");
    }
    fields
}

fn rock_ridge_file(name: &str) -> Vec<u8> {
    let mut fields = posix(FILE_MODE, 1);
    fields.extend(*b"NM");
    fields.extend([5 + name.len() as u8, 1, 0]);
    fields.extend_from_slice(name.as_bytes());
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(files: &[(&str, &[u8])]) -> Result<Vec<u8>, Unfit> {
        let files: Vec<File<'_>> = files
            .iter()
            .map(|&(name, content)| File { name, content })
            .collect();
        image("cidata", &files)
    }

    #[test]
    fn the_length_is_what_the_descriptors_say() {
        for length in [0, 1, 44, 2047, 2048, 2049, 200 * 1024] {
            let content = vec![b'x'; length];
            let image = made(&[("user-data", &content), ("meta-data", b"m")]).expect("made");
            assert_eq!(image.len() % SECTOR, 0);
            for descriptor in [16, 17] {
                let at = descriptor * SECTOR + 80;
                let said = u32::from_le_bytes(image[at..at + 4].try_into().expect("four"));
                assert_eq!(said as usize * SECTOR, image.len(), "{length}");
                assert_eq!(said.to_be_bytes(), image[at + 4..at + 8]);
            }
        }
    }

    #[test]
    fn the_same_files_make_the_same_image_whatever_their_order() {
        let one = made(&[("a", b"1"), ("b", b"2")]).expect("made");
        assert_eq!(one, made(&[("b", b"2"), ("a", b"1")]).expect("made"));
    }

    #[test]
    fn what_no_reader_would_find_is_refused() {
        let long = "a".repeat(65);
        for name in ["", "a/b", "ä", "a b", long.as_str()] {
            assert_eq!(made(&[(name, b"")]), Err(Unfit::Names), "{name}");
        }
        // Alike in 1988.
        assert_eq!(made(&[("user-data", b""), ("user.data", b"")]), Err(Unfit::Names));
        let names: Vec<String> = (0..40).map(|n| format!("{n:060}")).collect();
        let many: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &b""[..])).collect();
        assert_eq!(made(&many), Err(Unfit::Names));
        assert_eq!(image("longer-than-16-chars", &[]), Err(Unfit::Names));
    }
}
