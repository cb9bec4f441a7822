//! What the first bytes of an image tell: whether a guest could boot from it, and how large its disk is.
//!
//! It must not know where the bytes come from. Invariant: an image that is not what the configuration
//! says is refused here, before anything was made on a host.

use super::super::config::ImageFormat;

/// How many bytes [`inspect`] wants to see, where the image has as many.
pub(super) const WANTED: usize = 512;

/// Where version 2 of a qcow2's header ends; version 3 goes on.
const QCOW2_HEADER: usize = 72;
const QCOW2_HEADER_3: usize = 104;
const QCOW2_MAGIC: &[u8] = b"QFI\xfb";
/// An incompatible feature: the data is in another file.
const EXTERNAL_DATA: u64 = 1 << 2;

/// How what people mistake for an image begins, what it is, and what undoes it.
const NOT_IMAGES: [(&[u8], &str, &str); 9] = [
    (b"\x1f\x8b", "it is compressed with gzip", COMPRESSED),
    (b"\xfd7zXZ\0", "it is compressed with xz", COMPRESSED),
    (b"\x28\xb5\x2f\xfd", "it is compressed with zstd", COMPRESSED),
    (b"BZh", "it is compressed with bzip2", COMPRESSED),
    (b"PK\x03\x04", "it is a zip archive", COMPRESSED),
    (b"<!", "it is a web page", PAGE),
    (b"<html", "it is a web page", PAGE),
    (
        b"KDMV",
        "it is a disk of VMware (vmdk)",
        "convert it with qemu-img convert -O qcow2",
    ),
    (
        b"vhdxfile",
        "it is a disk of Hyper-V (vhdx)",
        "convert it with qemu-img convert -O qcow2",
    ),
];
const COMPRESSED: &str = "store it decompressed; a qcow2 may be compressed inside (qemu-img convert -c)";
const PAGE: &str = "give the URL of the file itself";

/// Why nothing boots from an image, and the way out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {way_out}")]
pub(super) struct Unusable {
    what: String,
    way_out: &'static str,
}

fn unusable<T>(what: impl Into<String>, way_out: &'static str) -> Result<T, Unusable> {
    Err(Unusable {
        what: what.into(),
        way_out,
    })
}

/// The size of the disk that an image of `length` bytes holds; `head` is how it begins.
///
/// # Errors
/// Where no guest could boot from it, or the format is not the one that was configured.
pub(super) fn inspect(head: &[u8], length: u64, format: ImageFormat) -> Result<u64, Unusable> {
    if length == 0 {
        return unusable("it is empty", PAGE);
    }
    let kind = NOT_IMAGES.iter().find(|(magic, ..)| {
        head.get(..magic.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(magic))
    });
    if let Some(&(_, what, way_out)) = kind {
        return unusable(what, way_out);
    }
    match (format, head.starts_with(QCOW2_MAGIC)) {
        (ImageFormat::Raw, false) => Ok(length),
        (ImageFormat::Raw, true) => unusable(
            "it is a qcow2, and the configuration says raw",
            "set format = \"qcow2\"",
        ),
        (ImageFormat::Qcow2, true) => qcow2(head),
        (ImageFormat::Qcow2, false) => unusable(
            "it is no qcow2",
            "set format = \"raw\" if it holds the bytes of a disk, or convert it with qemu-img convert -O qcow2",
        ),
    }
}

/// Reads the header that QEMU's docs/interop/qcow2.txt describes.
fn qcow2(head: &[u8]) -> Result<u64, Unusable> {
    const BROKEN: &str = "download it and look at it with qemu-img check";
    let word = |at: usize| {
        head.get(at..at + 4)
            .and_then(|bytes| bytes.try_into().ok())
            .map(u32::from_be_bytes)
    };
    let long = |at: usize| Some(u64::from(word(at)?) << 32 | u64::from(word(at + 4)?));
    let version = word(4).unwrap_or_default();
    let least = if version == 2 {
        QCOW2_HEADER
    } else {
        QCOW2_HEADER_3
    };
    if head.len() < least {
        return unusable("its header is cut off", BROKEN);
    }
    if version != 2 && version != 3 {
        return unusable(
            format!("it is a qcow2 of version {version}, and 2 and 3 are known"),
            "convert it with qemu-img convert -O qcow2",
        );
    }
    if long(8) != Some(0) {
        return unusable(
            "it is a qcow2 that needs another file below it",
            "make it whole with qemu-img convert -O qcow2",
        );
    }
    if word(32) != Some(0) {
        return unusable(
            "it is an encrypted qcow2",
            "decrypt it with qemu-img convert -O qcow2",
        );
    }
    if version == 3 && long(72).unwrap_or_default() & EXTERNAL_DATA != 0 {
        return unusable(
            "it is a qcow2 that has its data in another file",
            "make it whole with qemu-img convert -O qcow2",
        );
    }
    match long(24) {
        Some(size @ 1..) => Ok(size),
        _ => unusable("its header says that its disk is empty", BROKEN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(version: u32, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut head = vec![0; WANTED];
        head[..4].copy_from_slice(QCOW2_MAGIC);
        head[4..8].copy_from_slice(&version.to_be_bytes());
        head[24..32].copy_from_slice(&(3_u64 << 30).to_be_bytes());
        change(&mut head);
        head
    }

    #[test]
    fn the_size_of_a_disk_is_read() {
        for version in [2, 3] {
            let head = header(version, |_| {});
            assert_eq!(inspect(&head, 9999, ImageFormat::Qcow2), Ok(3 << 30));
        }
        assert_eq!(inspect(b"\xeb\x63\x90", 9999, ImageFormat::Raw), Ok(9999));
    }

    #[test]
    fn what_no_guest_boots_from_is_refused_with_a_way_out() {
        let qcow2 = ImageFormat::Qcow2;
        for (head, format, what, way_out) in [
            (b"\x1f\x8b\x08 ".to_vec(), qcow2, "gzip", "decompressed"),
            (
                b"\x1f\x8b\x08 ".to_vec(),
                ImageFormat::Raw,
                "gzip",
                "decompressed",
            ),
            (b"\xfd7zXZ\0 ".to_vec(), qcow2, "xz", "decompressed"),
            (b"\x28\xb5\x2f\xfd ".to_vec(), qcow2, "zstd", "decompressed"),
            (b"BZh9 ".to_vec(), qcow2, "bzip2", "decompressed"),
            (b"<!DOCTYPE html>".to_vec(), qcow2, "web page", "the file itself"),
            (
                b"<HTML>".to_vec(),
                ImageFormat::Raw,
                "web page",
                "the file itself",
            ),
            (b"KDMV".to_vec(), qcow2, "VMware", "qemu-img convert"),
            (b"\xeb\x63".to_vec(), qcow2, "no qcow2", "raw"),
            (header(3, |_| {}), ImageFormat::Raw, "it is a qcow2", "qcow2"),
            (header(3, |head| head.truncate(80)), qcow2, "cut off", "check"),
            (header(4, |_| {}), qcow2, "version 4", "convert"),
            (
                header(3, |head| head[15] = 1),
                qcow2,
                "another file below",
                "convert",
            ),
            (header(3, |head| head[35] = 2), qcow2, "encrypted", "decrypt"),
            (
                header(3, |head| head[79] = 4),
                qcow2,
                "data in another file",
                "convert",
            ),
            (header(2, |head| head[24..32].fill(0)), qcow2, "empty", "check"),
        ] {
            let refused = inspect(&head, 9999, format).expect_err(what).to_string();
            assert!(refused.contains(what) && refused.contains(way_out), "{refused}");
        }
        assert!(inspect(b"", 0, ImageFormat::Raw).is_err());
        // Features of version 3 mean nothing in version 2.
        assert!(inspect(&header(2, |head| head[79] = 4), 1, qcow2).is_ok());
    }
}
