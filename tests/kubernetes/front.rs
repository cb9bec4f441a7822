//! A front door to the API server: everything passes through, but for the faults that a test puts in.
//!
//! Of proxies it knows their mark's incarnation. Invariants: a fault strikes what it names and nothing else; whoever comes in
//! is, to the API server, the user whose client the front was given.

#![allow(dead_code, reason = "each test file uses its share")]

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use egress::transport::call::Task;
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::rig::MARK;

/// What a fault does.
#[derive(Clone, Debug)]
pub(crate) enum Effect {
    /// Answers with that status code and object.
    Answer(u16, Value),
    /// Never answers.
    Hang,
    /// Closes the connection.
    Cut,
    /// Changes the object that was sent, as an admission webhook does, and lets it pass.
    Change(fn(&mut Value)),
}

/// What goes wrong, and where.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    /// Of this method; any where `None`.
    pub(crate) method: Option<Method>,
    /// Whose path and query hold this.
    pub(crate) path: String,
    /// Whose body names this object; any where `None`.
    pub(crate) name: Option<String>,
    /// What happens.
    pub(crate) effect: Effect,
    /// Whether it happens once.
    pub(crate) once: bool,
    /// Whether it strikes only the create that made the Pod, and none that takes it over.
    pub(crate) of_its_maker: bool,
}

impl Fault {
    /// One that strikes the next request of that method, wherever it leads.
    pub(crate) fn once(method: Method, effect: Effect) -> Self {
        Self {
            method: Some(method),
            path: String::new(),
            name: None,
            effect,
            once: true,
            of_its_maker: false,
        }
    }

    fn strikes(&self, method: &Method, path: &str, body: &[u8], made: &HashSet<String>) -> bool {
        let named = |name: &String| {
            let object = serde_json::from_slice::<Value>(body).unwrap_or_default();
            object["metadata"]["name"] == **name
        };
        self.method.as_ref().is_none_or(|own| own == method)
            && path.contains(&self.path)
            // What is only tried out is not made.
            && !path.contains("dryRun=All")
            && self.name.as_ref().is_none_or(named)
            && (!self.of_its_maker || incarnation(body).is_some_and(|incarnation| made.contains(&incarnation)))
    }
}

/// The incarnation in the mark of an object that is sent.
fn incarnation(body: &[u8]) -> Option<String> {
    let object: Value = serde_json::from_slice(body).ok()?;
    let mark: Value = serde_json::from_str(object["metadata"]["annotations"][MARK].as_str()?).ok()?;
    Some(mark["incarnation"].as_str()?.to_owned())
}

/// A `Status` as the API server writes it.
pub(crate) fn status(code: u16, reason: &str, message: &str, kind: &str, name: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
        "reason": reason, "details": { "name": name, "kind": kind }, "code": code
    })
}

/// A front door.
pub(crate) struct Front {
    port: u16,
    shared: Arc<Shared>,
    _serving: Task<()>,
}

struct Shared {
    client: kube::Client,
    faults: Mutex<Vec<Fault>>,
    /// Method, path and query of everything that came, in order.
    asked: Mutex<Vec<String>>,
    /// The incarnations that Pods were made with.
    made: Mutex<HashSet<String>>,
    /// The most objects that a page of a listing may hold.
    page: Mutex<Option<u32>>,
}

impl Front {
    /// A front to the API server that `client` asks.
    pub(crate) async fn open(client: kube::Client) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let shared = Arc::new(Shared {
            client,
            faults: Mutex::default(),
            asked: Mutex::default(),
            made: Mutex::default(),
            page: Mutex::default(),
        });
        let serving = Task::spawn(serve(listener, Arc::clone(&shared)));
        Self {
            port,
            shared,
            _serving: serving,
        }
    }

    /// A kubeconfig that leads here.
    pub(crate) fn kubeconfig(&self) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Config",
            "clusters": [{ "name": "front", "cluster": { "server": format!("http://127.0.0.1:{}", self.port) } }],
            "users": [{ "name": "front", "user": {} }],
            "contexts": [{ "name": "front", "context": { "cluster": "front", "user": "front" } }],
            "current-context": "front",
        })
    }

    /// Puts a fault in.
    pub(crate) fn put(&self, fault: Fault) {
        self.shared.faults.lock().expect("whole").push(fault);
    }

    /// Lets no page of a listing hold more than that.
    pub(crate) fn shorten_pages(&self, objects: u32) {
        *self.shared.page.lock().expect("whole") = Some(objects);
    }

    /// Method, path and query of what was asked since the last time, in order.
    pub(crate) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.shared.asked.lock().expect("whole"))
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = Vec::new();
    while let Ok((stream, _)) = listener.accept().await {
        let shared = Arc::clone(&shared);
        connections.push(Task::spawn(async move {
            let service = service_fn(|request| answer(Arc::clone(&shared), request));
            // However it ends: a fault may have cut it.
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        }));
        connections.retain(|connection| !connection.is_finished());
    }
}

type Answer = Response<UnsyncBoxBody<Bytes, kube::Error>>;

async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Answer, std::io::Error> {
    let (parts, body) = request.into_parts();
    let mut body = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
    let mut path = parts
        .uri
        .path_and_query()
        .map_or("/", |path| path.as_str())
        .to_owned();
    let line = format!("{} {path}", parts.method);
    shared.asked.lock().expect("whole").push(line);
    let struck = {
        let mut made = shared.made.lock().expect("whole");
        if parts.method == Method::POST && path.contains("/pods") {
            made.extend(incarnation(&body));
        }
        let mut faults = shared.faults.lock().expect("whole");
        let found = faults
            .iter()
            .position(|fault| fault.strikes(&parts.method, &path, &body, &made));
        found.map(|index| {
            let fault = faults[index].clone();
            if fault.once {
                faults.remove(index);
            }
            fault.effect
        })
    };
    match struck {
        Some(Effect::Cut) => return Err(std::io::Error::other("cut")),
        Some(Effect::Hang) => std::future::pending().await,
        Some(Effect::Answer(code, object)) => {
            let body = Full::new(Bytes::from(object.to_string())).map_err(|never| match never {});
            return Ok(Response::builder()
                .status(StatusCode::from_u16(code).expect("a status code"))
                .header(http::header::CONTENT_TYPE, "application/json")
                .body(body.boxed_unsync())
                .expect("sound"));
        }
        Some(Effect::Change(change)) => {
            let mut object = serde_json::from_slice::<Value>(&body).map_err(std::io::Error::other)?;
            change(&mut object);
            body = Bytes::from(object.to_string());
        }
        None => {}
    }
    if let Some(objects) = *shared.page.lock().expect("whole") {
        path = path.replace("limit=500", &format!("limit={objects}"));
    }
    let mut passed = Request::builder().method(parts.method).uri(path);
    for name in [http::header::CONTENT_TYPE, http::header::ACCEPT] {
        if let Some(value) = parts.headers.get(&name) {
            passed = passed.header(name, value);
        }
    }
    let passed = passed
        .body(Body::from(body.to_vec()))
        .map_err(std::io::Error::other)?;
    let answer = shared.client.send(passed).await.map_err(std::io::Error::other)?;
    Ok(answer.map(|body| body.boxed_unsync()))
}
