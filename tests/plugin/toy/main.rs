//! A small provider of everything the protocol has, for the tests of `plugin` to drive.
//!
//! It manages notes that exist nowhere but in the state. Knows nothing of what the crate is about:
//! it stands for the provider that another team would write on `plugin`.

mod note;
mod rest;

use std::process::ExitCode;
use std::sync::Arc;

use async_trait::async_trait;
use egress::plugin::diagnostics::{Diagnostic, Diagnostics, Path};
use egress::plugin::provider::*;
use egress::plugin::schema::{Attribute, Block, Schema};
use egress::plugin::value::Value;
use egress::plugin::{ServeError, ServeOptions, log, report_crashes, runtime, serve};

struct Toy;

fn named<T: ?Sized>(name: &str, handler: Arc<T>) -> Named<T> {
    [(name.to_owned(), handler)].into()
}

#[async_trait]
impl Provider for Toy {
    fn schema(&self) -> Schema {
        Schema::new(
            Block::new()
                .describe("A provider of **toys**.")
                .attribute(Attribute::string("greeting").describe("Said to everyone."))
                .attribute(Attribute::string("token").sensitive()),
        )
    }

    fn meta_schema(&self) -> Option<Schema> {
        Some(Schema::new(Block::new().attribute(Attribute::string("module"))))
    }

    fn capabilities(&self) -> ServerCapabilities {
        ServerCapabilities {
            plan_destroy: true,
            move_resource_state: true,
            generate_resource_config: true,
        }
    }

    fn resources(&self) -> Named<dyn Resource> {
        named("toy_note", Arc::new(note::Note))
    }

    fn data_sources(&self) -> Named<dyn DataSource> {
        named("toy_echo", Arc::new(rest::Echo))
    }

    fn functions(&self) -> Named<dyn Function> {
        named("join", Arc::new(rest::Join))
    }

    fn ephemeral_resources(&self) -> Named<dyn EphemeralResource> {
        named("toy_secret", Arc::new(rest::Secret))
    }

    fn list_resources(&self) -> Named<dyn ListResource> {
        named("toy_note", Arc::new(rest::Notes))
    }

    fn actions(&self) -> Named<dyn Action> {
        named("toy_count", Arc::new(rest::Counting))
    }

    fn state_stores(&self) -> Named<dyn StateStore> {
        named("toy_shelf", Arc::new(rest::Shelf::default()))
    }

    async fn validate(&self, _: &Call, config: Value) -> Diagnostics {
        match config.get("greeting").as_str() {
            Some("") => Diagnostic::error("The greeting is empty")
                .detail("Leave it out instead.")
                .at(Path::root().attribute("greeting"))
                .into(),
            _ => Diagnostics::new(),
        }
    }

    async fn configure(&self, _: &Call, request: ConfigureRequest) -> Diagnostics {
        tracing::info!(version = request.terraform_version, "configured");
        Diagnostics::new()
    }
}

fn main() -> ExitCode {
    let debug = std::env::args().any(|argument| argument == "-debug");
    log::init("toy");
    if std::env::args().any(|argument| argument == "-crash") {
        report_crashes();
        panic!("the toy broke");
    }
    let options = ServeOptions {
        debug,
        provider_address: "acme/toy".to_owned(),
    };
    let runtime = runtime().expect("threads");
    let served = runtime.block_on(serve(Toy, options));
    runtime.shutdown_background();
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let help = matches!(error, ServeError::NotStartedByHost);
            let text = if help {
                "toy: a plugin for Terraform\n".to_owned()
            } else {
                format!("toy: {error}\n")
            };
            std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes()).expect("stderr");
            ExitCode::FAILURE
        }
    }
}
