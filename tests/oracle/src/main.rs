//! libvirt's C client behind a line protocol: a call as JSON on each line of stdin, its outcome as JSON on
//! a line of stdout.
//!
//! It knows nothing of the provider. Invariant: one line in, one line out, with libvirt's own numbers and
//! words; it ends when stdin does.

use std::collections::HashMap;
use std::ffi::CStr;
use std::io::{BufRead as _, Write as _};

use serde_json::{Value, json};
use virt::connect::Connect;
use virt::domain::Domain;
use virt::error::Error;
use virt::storage_pool::StoragePool;
use virt::storage_vol::StorageVol;
use virt::stream::Stream;
use virt::sys;

/// The connection, and the handles that calls gave, by name: a handle outlives its object.
struct Oracle {
    connect: Connect,
    domains: HashMap<String, Domain>,
    pools: HashMap<String, StoragePool>,
    volumes: HashMap<String, StorageVol>,
}

/// The arguments of a call, in order.
struct Arguments<'a>(&'a [Value]);

impl Arguments<'_> {
    fn text(&self, index: usize) -> &str {
        self.maybe(index).expect("a text")
    }

    fn maybe(&self, index: usize) -> Option<&str> {
        self.0.get(index).and_then(Value::as_str)
    }

    fn number(&self, index: usize) -> u32 {
        let number = self.0.get(index).and_then(Value::as_i64).expect("a number");
        number as u32
    }
}

fn main() {
    virt::error::clear_error_callback();
    let uri = std::env::args().nth(1).expect("usage: libvirt-oracle URI");
    let connect = match Connect::open(Some(&uri)) {
        Ok(connect) => connect,
        Err(_) => {
            println!("{}", failed());
            return;
        }
    };
    println!("{}", json!({ "ok": null }));
    let mut oracle = Oracle {
        connect,
        domains: HashMap::new(),
        pools: HashMap::new(),
        volumes: HashMap::new(),
    };
    for line in std::io::stdin().lock().lines() {
        let call: Vec<Value> = serde_json::from_str(&line.expect("a line")).expect("a list");
        let name = call[0].as_str().expect("a name");
        let outcome = match oracle.call(name, &Arguments(&call[1..])) {
            Ok(value) => json!({ "ok": value }),
            Err(_) => failed(),
        };
        println!("{outcome}");
        std::io::stdout().flush().expect("written");
    }
}

/// The last error, as libvirt keeps it.
fn failed() -> Value {
    // SAFETY: libvirt keeps its last error for each thread, and nothing was called since.
    let (code, domain, level, message) = unsafe {
        let error = sys::virGetLastError();
        assert!(!error.is_null(), "libvirt has no error");
        let message = match (*error).message {
            message if message.is_null() => String::new(),
            message => CStr::from_ptr(message).to_string_lossy().into_owned(),
        };
        ((*error).code, (*error).domain, (*error).level as i32, message)
    };
    json!({ "error": { "code": code, "domain": domain, "level": level, "message": message } })
}

impl Oracle {
    fn call(&mut self, name: &str, arguments: &Arguments<'_>) -> Result<Value, Error> {
        let text = |index| arguments.text(index);
        Ok(match name {
            "hostname" => self.connect.hostname()?.into(),
            "library_version" => self.connect.lib_version()?.into(),
            "node_info" => {
                let info = self.connect.node_info()?;
                json!([
                    info.model,
                    info.memory,
                    info.cpus,
                    info.mhz,
                    info.nodes,
                    info.sockets,
                    info.cores,
                    info.threads
                ])
            }
            "free_memory" => self.connect.free_memory()?.into(),
            "capabilities" => self.connect.capabilities()?.into(),
            "domain_capabilities" => self
                .connect
                .domain_capabilities(
                    arguments.maybe(0),
                    arguments.maybe(1),
                    arguments.maybe(2),
                    arguments.maybe(3),
                    0,
                )?
                .into(),
            "domains" => {
                let domains = self.connect.list_all_domains(arguments.number(0))?;
                let all: Result<Vec<_>, Error> = domains.iter().map(domain_json).collect();
                all?.into()
            }
            "domain_stats" => stats(&self.connect, arguments.number(0))?,
            "domain" => {
                let domain = self.connect.lookup_domain_by_name(text(0))?;
                self.keep_domain(domain)?
            }
            "define" => {
                let domain = self
                    .connect
                    .define_domain_xml_flags(text(0), arguments.number(1))?;
                self.keep_domain(domain)?
            }
            "define_plain" => {
                let domain = self.connect.define_domain_xml(text(0))?;
                self.keep_domain(domain)?
            }
            "start" => done(self.domain(text(0)).create())?,
            "resume" => done(self.domain(text(0)).resume())?,
            "wake" => done(self.domain(text(0)).pm_wakeup(0))?,
            "destroy" => done(self.domain(text(0)).destroy())?,
            "undefine" => done(self.domain(text(0)).undefine_flags(arguments.number(1)))?,
            "state" => {
                let (mut state, mut reason) = (0, 0);
                // SAFETY: the handle is alive, and the numbers are ours.
                let outcome = unsafe {
                    sys::virDomainGetState(self.domain(text(0)).as_ptr(), &mut state, &mut reason, 0)
                };
                if outcome < 0 {
                    return Err(Error::last_error());
                }
                json!([state, reason])
            }
            "metadata" => self.domain(text(0)).metadata(2, Some(text(1)), 0)?.into(),
            "set_metadata" => done(self.domain(text(0)).set_metadata(
                2,
                arguments.maybe(3),
                Some(text(2)),
                Some(text(1)),
                arguments.number(4),
            ))?,
            "domain_xml" => self.domain(text(0)).xml_desc(arguments.number(1))?.into(),
            "addresses" => {
                let interfaces = self.domain(text(0)).interface_addresses(arguments.number(1), 0)?;
                let all = interfaces.iter().map(|interface| {
                    let addresses = interface
                        .addrs
                        .iter()
                        .map(|address| json!([address.typed, address.addr, address.prefix]));
                    json!([interface.name, interface.hwaddr, addresses.collect::<Vec<_>>()])
                });
                all.collect::<Vec<_>>().into()
            }
            "agent" => self
                .domain(text(0))
                .qemu_agent_command(text(1), arguments.number(2) as i32, 0)?
                .into(),
            "pool" => {
                let pool = self.connect.lookup_storage_pool_by_name(text(0))?;
                let shown = json!([pool.name()?, pool.uuid_string()?]);
                self.pools.insert(pool.name()?, pool);
                shown
            }
            "pool_info" => {
                let info = self.pool(text(0)).info()?;
                json!([info.state, info.capacity, info.allocation, info.available])
            }
            "refresh" => done(self.pool(text(0)).refresh(0).map(drop))?,
            "volumes" => {
                let volumes = self.pool(text(0)).list_all_volumes(0)?;
                let all: Result<Vec<_>, Error> = volumes.iter().map(volume_json).collect();
                all?.into()
            }
            "volume" => {
                let volume = self.pool(text(0)).lookup_storage_vol_by_name(text(1))?;
                self.keep_volume(volume)?
            }
            "create_volume" => {
                let pool = self.pool(text(0));
                let volume = StorageVol::create_xml(pool, text(1), arguments.number(2))?;
                self.keep_volume(volume)?
            }
            "delete_volume" => done(self.volume(text(0)).delete(0))?,
            "volume_info" => {
                let info = self.volume(text(0)).info()?;
                json!([info.kind, info.capacity, info.allocation])
            }
            "volume_path" => self.volume(text(0)).path()?.into(),
            "volume_xml" => self.volume(text(0)).xml_desc(0)?.into(),
            "upload" => {
                let length = arguments.number(1);
                let stream = Stream::new(&self.connect, 0)?;
                let volume = self.volume(text(0));
                volume.upload(&stream, 0, u64::from(length), 0)?;
                let contents = vec![b'o'; length as usize];
                let mut sent = 0;
                while sent < contents.len() {
                    sent += usize::try_from(stream.send(&contents[sent..])?).expect("a length");
                }
                stream.finish()?;
                length.into()
            }
            other => panic!("no call {other}"),
        })
    }

    fn keep_domain(&mut self, domain: Domain) -> Result<Value, Error> {
        let shown = domain_json(&domain)?;
        self.domains.insert(domain.name()?, domain);
        Ok(shown)
    }

    fn keep_volume(&mut self, volume: StorageVol) -> Result<Value, Error> {
        let shown = volume_json(&volume)?;
        self.volumes.insert(volume.name()?, volume);
        Ok(shown)
    }

    fn domain(&self, name: &str) -> &Domain {
        self.domains.get(name).expect("looked up before")
    }

    fn pool(&self, name: &str) -> &StoragePool {
        self.pools.get(name).expect("looked up before")
    }

    fn volume(&self, name: &str) -> &StorageVol {
        self.volumes.get(name).expect("looked up before")
    }
}

fn done<T>(outcome: Result<T, Error>) -> Result<Value, Error> {
    outcome.map(|_| Value::Null)
}

fn domain_json(domain: &Domain) -> Result<Value, Error> {
    let id = domain.id().map_or(-1, i64::from);
    Ok(json!([domain.name()?, domain.uuid_string()?, id]))
}

fn volume_json(volume: &StorageVol) -> Result<Value, Error> {
    let pool = volume.lookup_storage_pool()?.name()?;
    Ok(json!([pool, volume.name()?, volume.key()?]))
}

/// The figures of all domains: for each its name and the figures' names with their values.
fn stats(connect: &Connect, which: u32) -> Result<Value, Error> {
    let mut all = Vec::new();
    for record in connect.all_domain_stats(which, 0)? {
        // SAFETY: the record is libvirt's own and stays alive until the process ends.
        let (name, figures) = unsafe {
            let record = &*record.ptr;
            let name = CStr::from_ptr(sys::virDomainGetName(record.dom));
            let mut figures = Vec::new();
            for index in 0..record.nparams {
                let figure = &*record.params.offset(index as isize);
                let value = match figure.type_ as u32 {
                    1 => json!(figure.value.i),
                    2 => json!(figure.value.ui),
                    3 => json!(figure.value.l),
                    4 => json!(figure.value.ul),
                    5 => json!(figure.value.d),
                    6 => json!(figure.value.b != 0),
                    7 => json!(CStr::from_ptr(figure.value.s).to_string_lossy()),
                    other => panic!("a figure of type {other}"),
                };
                let field = CStr::from_ptr(figure.field.as_ptr())
                    .to_string_lossy()
                    .into_owned();
                figures.push(json!([field, value]));
            }
            (name.to_string_lossy().into_owned(), figures)
        };
        all.push(json!([name, figures]));
    }
    Ok(all.into())
}
