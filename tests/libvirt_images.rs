//! The images of the libvirt backends against a real libvirtd: what is downloaded, what is found again,
//! and what a failure leaves.

mod libvirt_host;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use egress::backend::libvirt::config::{Firmware, Image, ImageFormat};
use egress::backend::libvirt::image::download::Patience;
use egress::backend::libvirt::image::{BaseImage, Fresh, Images};
use egress::contract::{Error, ErrorKind};
use egress::transport::call::{Interval, Limits, Look, Task, poll};
use egress::transport::libvirt::types::Pool;
use egress::transport::libvirt::{Client, LibvirtApi, Settings};
use futures_util::FutureExt as _;
use futures_util::future::join_all;
use libvirt_host::{Host, Web};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

const VIRTUAL_SIZE: u64 = 24 << 20;

/// A host, a connection to it, and an image of 8 MB.
struct Rig {
    host: Host,
    api: Arc<dyn LibvirtApi>,
    pool: Pool,
    images: Arc<Images>,
    folder: TempDir,
    dials: Arc<AtomicUsize>,
}

impl Rig {
    async fn new() -> Self {
        let host = Host::start();
        let api = connect(host.socket()).await;
        let pool = api.pool("default").await.expect("a pool");
        let folder = tempfile::tempdir().expect("a folder");
        let content: Vec<u8> = (0..8_000_000_u32)
            .map(|n| (n.wrapping_mul(2_654_435_761) >> 15) as u8)
            .collect();
        std::fs::write(folder.path().join("raw"), content).expect("written");
        qemu_img(folder.path(), &["resize", "-q", "-f", "raw", "raw", "24M"]);
        qemu_img(
            folder.path(),
            &["convert", "-f", "raw", "-O", "qcow2", "raw", "qcow2"],
        );
        let patience = Patience {
            stall: Duration::from_secs(60),
            resumptions: 3,
            pause: Duration::from_millis(1),
        };
        let images = Arc::new(Images::new(patience, folder.path().to_owned(), 1 << 30));
        Self {
            host,
            api,
            pool,
            images,
            folder,
            dials: Arc::default(),
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn image(&self, web: &Web) -> Image {
        Image {
            key: "debian".into(),
            url: web.url().parse().expect("a URL"),
            sha256: Some(sha256(&self.file("qcow2"))),
            format: ImageFormat::Qcow2,
            firmware: Firmware::Bios,
        }
    }

    fn ensure(&self, image: &Image) -> impl Future<Output = Result<BaseImage, Error>> + Send + 'static {
        let (api, socket, dials) = (Arc::clone(&self.api), self.host.socket(), Arc::clone(&self.dials));
        let (images, pool, image) = (Arc::clone(&self.images), self.pool.clone(), image.clone());
        async move {
            let fresh = move || -> Fresh {
                dials.fetch_add(1, Ordering::SeqCst);
                async move { Ok(connect(socket).await) }.boxed()
            };
            images.ensure("h1", api, fresh, &pool, &image).await
        }
    }
}

async fn connect(socket: PathBuf) -> Arc<dyn LibvirtApi> {
    let stream = tokio::net::UnixStream::connect(&socket).await.expect("connects");
    let client = Client::open(stream, "qemu:///system", Settings::default()).await;
    Arc::new(client.expect("opens"))
}

fn qemu_img(folder: &Path, arguments: &[&str]) {
    let output = Command::new("qemu-img")
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("qemu-img runs; install qemu-utils");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn sha256(file: &Path) -> String {
    let digest = Sha256::digest(std::fs::read(file).expect("readable"));
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
#[ignore = "needs a libvirt host"]
async fn ten_creates_download_once_and_the_next_one_finds_it() {
    let rig = Rig::new().await;
    let web = Web::serve(&rig.file("qcow2"));
    let image = rig.image(&web);
    let all = join_all((0..10).map(|_| rig.ensure(&image))).await;
    let found: Vec<BaseImage> = all.into_iter().map(|base| base.expect("there")).collect();
    assert_eq!(web.requests(), 1);
    assert_eq!(rig.dials.load(Ordering::SeqCst), 1);
    assert!(found.iter().all(|base| *base == found[0]));
    assert_eq!(found[0].virtual_size, VIRTUAL_SIZE);
    assert_eq!(sha256(Path::new(&found[0].path)), sha256(&rig.file("qcow2")));

    assert_eq!(rig.ensure(&image).await.expect("found"), found[0]);
    assert_eq!(web.requests(), 1);
    // What libvirt finds out by looking is what was said.
    assert_eq!(rig.host.volumes().len(), 2);
    let info = rig.api.volume_info(&found[0].volume).await.expect("figures");
    assert_eq!(info.capacity, VIRTUAL_SIZE);
    assert_eq!(rig.ensure(&image).await.expect("found"), found[0]);

    // Somebody removed it: the marker alone proves nothing.
    rig.host
        .virsh(&["vol-delete", "--pool", "default", &found[0].volume.name]);
    let anew = rig.ensure(&image).await.expect("there");
    assert_ne!(anew, found[0]);
    assert_eq!((web.requests(), rig.host.volumes().len()), (2, 2));
}

#[tokio::test]
#[ignore = "needs a libvirt host"]
async fn a_cut_download_arrives_whole() {
    let rig = Rig::new().await;
    let web = Web::cut_after(&rig.file("qcow2"), 2, 3_000_000);
    let base = rig.ensure(&rig.image(&web)).await.expect("there");
    assert_eq!(web.requests(), 3);
    assert_eq!(sha256(Path::new(&base.path)), sha256(&rig.file("qcow2")));
}

#[tokio::test]
#[ignore = "needs a libvirt host"]
async fn raw_images_are_as_long_as_their_disks() {
    let rig = Rig::new().await;
    let web = Web::serve(&rig.file("raw"));
    let image = Image {
        sha256: None,
        format: ImageFormat::Raw,
        ..rig.image(&web)
    };
    let base = rig.ensure(&image).await.expect("there");
    assert_eq!((base.virtual_size, base.format), (VIRTUAL_SIZE, ImageFormat::Raw));
    assert_eq!(sha256(Path::new(&base.path)), sha256(&rig.file("raw")));
}

#[tokio::test]
#[ignore = "needs a libvirt host"]
async fn what_is_not_the_image_leaves_nothing() {
    let rig = Rig::new().await;
    let web = Web::serve(&rig.file("qcow2"));
    let wrong = Image {
        sha256: Some("0".repeat(64)),
        ..rig.image(&web)
    };
    let error = rig.ensure(&wrong).await.expect_err("another digest");
    assert_eq!(error.kind(), ErrorKind::Permanent);
    assert!(
        error.message().contains(&sha256(&rig.file("qcow2"))) && error.message().contains("sha256"),
        "{error}"
    );
    assert_eq!(rig.host.volumes(), [""; 0]);

    std::fs::write(rig.file("gz"), b"\x1f\x8b\x08 and more").expect("written");
    let web = Web::serve(&rig.file("gz"));
    let error = rig.ensure(&rig.image(&web)).await.expect_err("compressed");
    assert_eq!(error.kind(), ErrorKind::Permanent);
    let cause = std::error::Error::source(&error).expect("a cause").to_string();
    assert!(
        cause.contains("gzip") && cause.contains("decompressed"),
        "{cause}"
    );
    assert_eq!(rig.host.volumes(), [""; 0]);
}

#[tokio::test]
#[ignore = "needs a libvirt host"]
async fn a_pool_without_room_is_a_quota_with_figures() {
    let rig = Rig::new().await;
    let small = rig.host.pool("small");
    let place = small.display().to_string();
    std::fs::create_dir(&small).expect("made");
    let mounted = rig
        .host
        .inside("mount", &["-t", "tmpfs", "-o", "size=1m", "tmpfs", &place]);
    assert!(mounted.status.success(), "{mounted:?}");
    rig.host
        .virsh(&["pool-define-as", "small", "dir", "--target", &place]);
    rig.host.virsh(&["pool-start", "small"]);
    let web = Web::serve(&rig.file("qcow2"));
    let mut rig = rig;
    rig.pool = rig.api.pool("small").await.expect("a pool");
    let error = rig.ensure(&rig.image(&web)).await.expect_err("no room");
    assert_eq!(error.kind(), ErrorKind::QuotaExceeded);
    assert!(
        error.message().contains("small has 1") && error.message().contains("takes 8"),
        "{error}"
    );
}

#[tokio::test]
#[ignore = "needs a libvirt host"]
async fn who_leaves_stops_nobody_and_what_all_left_is_begun_anew() {
    let rig = Rig::new().await;
    let web = Web::serve(&rig.file("qcow2"));
    let image = rig.image(&web);
    let mut first = Box::pin(rig.ensure(&image));
    assert!(futures_util::poll!(&mut first).is_pending());
    let second = Task::spawn(rig.ensure(&image));
    tokio::task::yield_now().await;
    drop(first);
    let base = second.await.expect("ran").expect("there");
    assert_eq!(web.requests(), 1);

    // Everybody leaves in the middle of the upload of another image.
    let other = Image {
        sha256: None,
        ..image.clone()
    };
    let alone = Task::spawn(rig.ensure(&other));
    let look = || async {
        let volumes = rig.api.volumes(&rig.pool).await.expect("a list");
        Ok::<_, ()>(if volumes.len() > 2 || alone.is_finished() {
            Look::Done(())
        } else {
            Look::Pending(format!("{volumes:?}"))
        })
    };
    let limits = Limits::after(Duration::from_secs(60));
    poll(&limits, Interval::every(Duration::from_millis(1)), look)
        .await
        .expect("it begins");
    drop(alone);
    // What it left is removed by the next download.
    rig.ensure(&other).await.expect("there");
    assert_eq!(rig.host.volumes().len(), 4);
    assert_eq!(rig.ensure(&image).await.expect("there"), base);
}

#[tokio::test]
#[ignore = "needs a libvirt host"]
async fn an_image_that_disks_lie_on_outlives_its_marker() {
    let rig = Rig::new().await;
    let web = Web::serve(&rig.file("qcow2"));
    let image = rig.image(&web);
    let base = rig.ensure(&image).await.expect("there");
    // Behind it come the disk's size and what makes the name new.
    let marker = base.volume.name.rsplitn(3, '-').nth(2).expect("a marker's name");
    rig.host.virsh(&[
        "vol-create-as",
        "default",
        "disk",
        "24M",
        "--format",
        "qcow2",
        "--backing-vol",
        &base.volume.name,
        "--backing-vol-format",
        "qcow2",
    ]);
    rig.host.virsh(&["vol-delete", "--pool", "default", marker]);
    let other = rig.ensure(&image).await.expect("there");
    assert_ne!(other.path, base.path);
    assert!(Path::new(&base.path).exists(), "a disk lies on it");

    // Without the disk it is what a download left that was cut off.
    for volume in ["disk", marker] {
        rig.host.virsh(&["vol-delete", "--pool", "default", volume]);
    }
    rig.ensure(&image).await.expect("there");
    assert_eq!(rig.host.volumes().len(), 2);
}

#[tokio::test]
#[ignore = "needs a libvirt host"]
async fn of_two_runs_that_download_at_once_both_have_one_image() {
    let rig = Rig::new().await;
    let web = Web::serve(&rig.file("qcow2"));
    let image = rig.image(&web);
    // As another process has it: nothing of this one's is shared.
    let theirs = {
        let images = Images::new(Patience::default(), rig.folder.path().to_owned(), 1 << 30);
        let (api, pool, image) = (connect(rig.host.socket()).await, rig.pool.clone(), image.clone());
        let socket = rig.host.socket();
        move || async move {
            let fresh = move || -> Fresh { async move { Ok(connect(socket).await) }.boxed() };
            images.ensure("h1", api, fresh, &pool, &image).await
        }
    };
    let (ours, theirs) = tokio::join!(rig.ensure(&image), theirs());
    // Whoever was slower has the other's image, or finds it with the next attempt.
    let both = [ours, theirs];
    let bases: Vec<&BaseImage> = both.iter().flatten().collect();
    let found = rig.ensure(&image).await.expect("there");
    assert!(
        !bases.is_empty() && bases.iter().all(|base| **base == found),
        "{both:?}, and then {found:?}"
    );
    assert_eq!(web.requests(), 2);
    assert_eq!(rig.host.volumes().len(), 2);
}
