//! Volumes as libvirt's XML, written and read.
//!
//! It must not know what volumes are for. Invariants: whatever is interpolated is escaped; what is read
//! is what libvirt says, and an element that it left out is `None`.

use quick_xml::escape::escape;

use super::config::ImageFormat;
use super::xml::Element;

/// What lies below a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backing<'a> {
    /// Its path on the host.
    pub path: &'a str,
    /// Its format, which QEMU must not guess.
    pub format: ImageFormat,
}

/// A volume of plain bytes that takes room only as it is written.
#[must_use]
pub fn raw(name: &str, bytes: u64) -> String {
    volume(name, bytes, ImageFormat::Raw, None)
}

/// A volume that holds what differs from another one.
#[must_use]
pub fn overlay(name: &str, bytes: u64, backing: &Backing<'_>) -> String {
    volume(name, bytes, ImageFormat::Qcow2, Some(backing))
}

fn volume(name: &str, bytes: u64, format: ImageFormat, backing: Option<&Backing<'_>>) -> String {
    let backing = backing.map_or_else(String::new, |backing| {
        format!(
            "<backingStore><path>{}</path><format type='{}'/></backingStore>",
            escape(backing.path),
            backing.format.as_str()
        )
    });
    format!(
        "<volume><name>{}</name><capacity unit='bytes'>{bytes}</capacity><allocation unit='bytes'>0</allocation>\
         <target><format type='{}'/></target>{backing}</volume>",
        escape(name),
        format.as_str()
    )
}

/// What libvirt says of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Bytes as a guest sees them.
    pub capacity: Option<u64>,
    /// Its path on the host.
    pub path: Option<String>,
    /// Its format, in libvirt's words.
    pub format: Option<String>,
    /// The path of what lies below it.
    pub backing_path: Option<String>,
    /// The format of that.
    pub backing_format: Option<String>,
}

/// Reads a volume's XML; `None` where it is not XML or not a volume's.
#[must_use]
pub fn read(xml: &str) -> Option<Seen> {
    let volume = Element::parse(xml).filter(|root| root.name() == "volume")?;
    let text = |path: &[&str]| Some(volume.at(path)?.text().to_owned());
    let format = |of: &str| Some(volume.at(&[of, "format"])?.attribute("type")?.to_owned());
    Some(Seen {
        capacity: volume
            .at(&["capacity"])
            .and_then(|bytes| bytes.text().parse().ok()),
        path: text(&["target", "path"]),
        format: format("target"),
        backing_path: text(&["backingStore", "path"]),
        backing_format: format("backingStore"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What libvirt 9.0 answers for an overlay in a folder pool.
    const OVERLAY: &str = "<volume type='file'>
  <name>a.qcow2</name>
  <key>/p/a &amp; b.qcow2</key>
  <capacity unit='bytes'>10737418240</capacity>
  <allocation unit='bytes'>200704</allocation>
  <physical unit='bytes'>196624</physical>
  <target>
    <path>/p/a &amp; &#98;.qcow2</path>
    <format type='qcow2'/>
    <permissions><mode>0600</mode><owner>0</owner><group>0</group></permissions>
    <compat>1.1</compat>
    <features/>
  </target>
  <backingStore>
    <path>/p/base.qcow2</path>
    <format type='qcow2'/>
    <permissions><mode>0600</mode></permissions>
  </backingStore>
</volume>
";

    #[test]
    fn what_libvirt_says_is_read() {
        assert_eq!(
            read(OVERLAY),
            Some(Seen {
                capacity: Some(10_737_418_240),
                path: Some("/p/a & b.qcow2".into()),
                format: Some("qcow2".into()),
                backing_path: Some("/p/base.qcow2".into()),
                backing_format: Some("qcow2".into()),
            })
        );
        let raw = "<volume><capacity unit='bytes'>1</capacity><target><path>/p/s</path><format type='raw'/></target></volume>";
        let seen = read(raw).expect("a volume");
        assert_eq!((seen.format.as_deref(), seen.backing_path), (Some("raw"), None));
        for broken in ["", "no", "<volume>", "<volume><capacity>1</volume>"] {
            assert_eq!(read(broken), None, "{broken}");
        }
    }

    #[test]
    fn what_is_written_reads_back() {
        let backing = Backing {
            path: "/pool & more/<base>",
            format: ImageFormat::Raw,
        };
        let seen = read(&overlay("o", 7, &backing)).expect("a volume");
        assert_eq!(seen.capacity, Some(7));
        assert_eq!(seen.format.as_deref(), Some("qcow2"));
        assert_eq!(seen.backing_path.as_deref(), Some(backing.path));
        assert_eq!(seen.backing_format.as_deref(), Some("raw"));
        let seed = raw("s", 2048);
        assert!(seed.contains("<format type='raw'/>") && !seed.contains("backingStore"));
    }
}
