//! The calls on the provider itself, data sources, functions and ephemeral resources.
//!
//! Must not know gRPC. Invariant: an error in reading a request or writing an answer becomes a
//! diagnostic (of a function: its error) with its place.

use super::catalogue::Catalogue;
use crate::plugin::convert::{self, received, received_as, sent, sent_as};
use crate::plugin::diagnostics::Diagnostics;
use crate::plugin::generated::tfplugin6::{self as wire, *};
use crate::plugin::panic::Panic;
use crate::plugin::provider::{
    Call, CloseRequest, ConfigureRequest, FunctionError, OpenRequest, Provider, ReadDataRequest, RenewRequest,
};
use crate::plugin::value::Value;

const CONFIG: &str = "The configuration";

pub(super) async fn validate_provider(
    provider: &dyn Provider,
    catalogue: &Catalogue,
    call: &Call,
    request: validate_provider_config::Request,
) -> Result<validate_provider_config::Response, Diagnostics> {
    let config = received(&catalogue.provider, request.config, "The provider configuration")?;
    let diagnostics = provider.validate(call, config).await;
    Ok(validate_provider_config::Response {
        diagnostics: convert::diagnostics(diagnostics),
    })
}

pub(super) async fn configure(
    provider: &dyn Provider,
    catalogue: &Catalogue,
    call: &Call,
    request: configure_provider::Request,
) -> Result<configure_provider::Response, Diagnostics> {
    let config = received(&catalogue.provider, request.config, "The provider configuration")?;
    let request = ConfigureRequest {
        terraform_version: request.terraform_version,
        config,
    };
    let diagnostics = provider.configure(call, request).await;
    Ok(configure_provider::Response {
        diagnostics: convert::diagnostics(diagnostics),
    })
}

pub(super) async fn validate_data_source(
    catalogue: &Catalogue,
    call: &Call,
    request: validate_data_resource_config::Request,
) -> Result<validate_data_resource_config::Response, Diagnostics> {
    let entry = catalogue.data_source(&request.type_name)?;
    let config = received(&entry.layout, request.config, CONFIG)?;
    let diagnostics = entry.handler.validate(call, config).await;
    Ok(validate_data_resource_config::Response {
        diagnostics: convert::diagnostics(diagnostics),
    })
}

pub(super) async fn read_data_source(
    catalogue: &Catalogue,
    call: &Call,
    request: wire::read_data_source::Request,
) -> Result<wire::read_data_source::Response, Diagnostics> {
    let entry = catalogue.data_source(&request.type_name)?;
    let meta = catalogue.meta.as_ref();
    let meta = meta.and_then(|layout| received(layout, request.provider_meta, "provider_meta").ok());
    let request = ReadDataRequest {
        config: received(&entry.layout, request.config, CONFIG)?,
        provider_meta: meta.unwrap_or_default(),
    };
    let response = entry.handler.read(call, request).await;
    if response.diagnostics.has_errors() {
        return Err(response.diagnostics);
    }
    Ok(wire::read_data_source::Response {
        state: Some(sent(&entry.layout, response.state, "a result")?),
        diagnostics: convert::diagnostics(response.diagnostics),
        deferred: convert::deferred(response.deferred),
    })
}

pub(super) async fn call_function(
    catalogue: &Catalogue,
    call: &Call,
    request: call_function::Request,
) -> Result<wire::DynamicValue, FunctionError> {
    let whole = |diagnostics: Diagnostics| FunctionError::new(sentences(&diagnostics));
    let entry = catalogue.function(&request.name).map_err(whole)?;
    let signature = &entry.signature;
    let given = request.arguments.len();
    if given < signature.parameters.len()
        || (given > signature.parameters.len() && signature.variadic.is_none())
    {
        let wanted = signature.parameters.len();
        return Err(FunctionError::new(format!(
            "{wanted} arguments were expected, but {given} were given."
        )));
    }
    let parameters = signature
        .parameters
        .iter()
        .chain(std::iter::repeat(&signature.variadic).flatten());
    let mut arguments = Vec::with_capacity(given);
    for (i, (argument, parameter)) in request.arguments.into_iter().zip(parameters).enumerate() {
        let what = format!("The argument {:?}", parameter.name);
        let value = received_as(&parameter.ty, Some(argument), &what)
            .map_err(|diagnostics| FunctionError::argument(i as i64, sentences(&diagnostics)))?;
        if value.is_null() && !parameter.allow_null {
            return Err(FunctionError::argument(
                i as i64,
                format!("{what} must not be null."),
            ));
        }
        arguments.push(value);
    }
    // Hosts do this themselves; a function that promised nothing about unknowns is safe all the same.
    let every = signature
        .parameters
        .iter()
        .chain(std::iter::repeat(&signature.variadic).flatten());
    let unknown = arguments
        .iter()
        .zip(every)
        .any(|(value, p)| !p.allow_unknown && !value.is_wholly_known());
    let result = if unknown {
        Value::unknown()
    } else {
        entry.handler.call(call, arguments).await?
    };
    sent_as(&signature.returns, &result, "a result").map_err(whole)
}

pub(super) fn function_panicked(panic: &Panic) -> FunctionError {
    FunctionError::new(sentences(&panic.diagnostic().into()))
}

fn sentences(diagnostics: &Diagnostics) -> String {
    let texts = diagnostics.iter().map(|d| format!("{}: {}", d.summary, d.detail));
    texts.collect::<Vec<_>>().join(" ")
}

pub(super) async fn validate_ephemeral(
    catalogue: &Catalogue,
    call: &Call,
    request: validate_ephemeral_resource_config::Request,
) -> Result<validate_ephemeral_resource_config::Response, Diagnostics> {
    let entry = catalogue.ephemeral_resource(&request.type_name)?;
    let config = received(&entry.layout, request.config, CONFIG)?;
    let diagnostics = entry.handler.validate(call, config).await;
    Ok(validate_ephemeral_resource_config::Response {
        diagnostics: convert::diagnostics(diagnostics),
    })
}

pub(super) async fn open_ephemeral(
    catalogue: &Catalogue,
    call: &Call,
    request: open_ephemeral_resource::Request,
) -> Result<open_ephemeral_resource::Response, Diagnostics> {
    let entry = catalogue.ephemeral_resource(&request.type_name)?;
    let config = received(&entry.layout, request.config, CONFIG)?;
    let response = entry.handler.open(call, OpenRequest { config }).await;
    if response.diagnostics.has_errors() {
        return Err(response.diagnostics);
    }
    Ok(open_ephemeral_resource::Response {
        diagnostics: convert::diagnostics(response.diagnostics),
        renew_at: response.renew_at.map(convert::timestamp),
        result: Some(sent(&entry.layout, response.result, "a result")?),
        private: response.private.map(Into::into),
        deferred: convert::deferred(response.deferred),
    })
}

pub(super) async fn renew_ephemeral(
    catalogue: &Catalogue,
    call: &Call,
    request: renew_ephemeral_resource::Request,
) -> Result<renew_ephemeral_resource::Response, Diagnostics> {
    let entry = catalogue.ephemeral_resource(&request.type_name)?;
    let private = request.private.map(Into::into);
    let response = entry.handler.renew(call, RenewRequest { private }).await;
    Ok(renew_ephemeral_resource::Response {
        diagnostics: convert::diagnostics(response.diagnostics),
        renew_at: response.renew_at.map(convert::timestamp),
        private: response.private.map(Into::into),
    })
}

pub(super) async fn close_ephemeral(
    catalogue: &Catalogue,
    call: &Call,
    request: close_ephemeral_resource::Request,
) -> Result<close_ephemeral_resource::Response, Diagnostics> {
    let entry = catalogue.ephemeral_resource(&request.type_name)?;
    let private = request.private.map(Into::into);
    let diagnostics = entry.handler.close(call, CloseRequest { private }).await;
    Ok(close_ephemeral_resource::Response {
        diagnostics: convert::diagnostics(diagnostics),
    })
}
