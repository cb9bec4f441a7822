//! Each call is seen exactly once, and nothing that must not be.

use std::fmt;
use std::io::Cursor;
use std::sync::Mutex;

use tracing::Subscriber;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use uuid::Uuid;

use super::super::testing::{Fault, Stub};
use super::*;
use crate::transport::libvirt::Code;

/// What was seen: spans by the call they are about, and lines.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<(Vec<String>, Vec<String>)>>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0 += &format!(" {}={value:?}", field.name());
    }
}

impl<S: Subscriber> Layer<S> for Seen {
    fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        let mut line = Line(attributes.metadata().name().to_owned());
        attributes.record(&mut line);
        self.0.lock().expect("not poisoned").0.push(line.0);
    }

    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        self.0.lock().expect("not poisoned").1.push(line.0);
    }
}

const SECRET: &str = "s3ntinel";

/// Calls everything once, and how often that is.
async fn call_everything(api: &dyn LibvirtApi) -> usize {
    let domain = Domain {
        name: "d".to_owned(),
        uuid: Uuid::nil(),
        id: -1,
    };
    let pool = Pool {
        name: "p".to_owned(),
        uuid: Uuid::nil(),
    };
    let volume = Volume {
        pool: "p".to_owned(),
        name: "v".to_owned(),
        key: String::new(),
    };
    let mut count = 0;
    macro_rules! each {
        ($($call:expr;)*) => { $(let _ = $call.await; count += 1;)* };
    }
    each! {
        api.hostname();
        api.library_version();
        api.node_info();
        api.free_memory();
        api.capabilities();
        api.domain_capabilities(None, None, None, Some("kvm"));
        api.domains(0);
        api.domain_stats(&[], 0);
        api.domain("d");
        api.define("<domain/>", 0);
        api.define_plain("<domain/>");
        api.start(&domain);
        api.resume(&domain);
        api.wake(&domain);
        api.destroy(&domain);
        api.undefine(&domain, 0);
        api.state(&domain);
        api.metadata(&domain, "urn:m:1");
        api.set_metadata(&domain, "urn:m:1", "m", Some("<m/>"), 0);
        api.domain_xml(&domain, 0);
        api.addresses(&domain, AddressSource::Arp);
        api.agent(&domain, SECRET, 1);
        api.pool("p");
        api.pool_info(&pool);
        api.refresh(&pool);
        api.volumes(&pool);
        api.volume(&pool, "v");
        api.create_volume(&pool, "<volume/>", 0);
        api.delete_volume(&volume);
        api.volume_info(&volume);
        api.volume_path(&volume);
        api.volume_xml(&volume);
        api.upload(&volume, 0, 0, &mut Cursor::new(SECRET.as_bytes()));
    }
    count
}

#[tokio::test]
async fn each_call_has_one_span_and_one_line() {
    let seen = Seen::default();
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(seen.clone()));
    let api = Observed::new("beelink", Arc::new(Stub::default()));
    let operation = tracing::info_span!("provider.get");
    let count = call_everything(&api).instrument(operation).await;
    let (spans, lines) = std::mem::take(&mut *seen.0.lock().expect("not poisoned"));
    assert_eq!(spans.len(), count + 1);
    assert!(
        spans[1..]
            .iter()
            .all(|span| span.starts_with("libvirt.call call=") && span.contains(" host=\"beelink\""))
    );
    let outcomes = lines.iter().filter(|line| line.starts_with("DEBUG")).count();
    assert_eq!(outcomes, count);
    assert!(!spans.concat().contains(SECRET) && !lines.concat().contains(SECRET));
    // Documents are in the lowest tier alone.
    assert!(
        lines
            .iter()
            .all(|line| !line.contains('<') || line.starts_with("TRACE"))
    );
}

#[tokio::test]
async fn without_an_operation_there_is_a_line_and_no_span() {
    let seen = Seen::default();
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(seen.clone()));
    let stub = Stub::failing("hostname", Fault::Refused(Code::NO_SUPPORT, "not here"));
    let api = Observed::new("beelink", Arc::new(stub));
    api.hostname().await.expect_err("refused");
    let (spans, lines) = std::mem::take(&mut *seen.0.lock().expect("not poisoned"));
    assert!(spans.is_empty());
    let [line] = lines.as_slice() else {
        panic!("one line: {lines:?}");
    };
    assert!(line.contains("code=3") && line.contains("not here"), "{line}");
}
