//! The calls on list resources and actions, whose answers are streams.
//!
//! Must not know gRPC. Invariants: no more objects than the limit go out; an action's stream always
//! ends with `completed`, whatever became of the action.

use super::Service;
use super::catalogue::Catalogue;
use super::stream::{BUFFER, EventStream, Step};
use crate::plugin::convert::{self, received, received_as, sent};
use crate::plugin::diagnostics::{Diagnostic, Diagnostics};
use crate::plugin::generated::tfplugin6::{self as wire, *};
use crate::plugin::provider::{Call, Events, ListEvent, ListRequest, ValidateListRequest};
use crate::plugin::types::Type;

const CONFIG: &str = "The configuration";

pub(super) async fn validate_list(
    catalogue: &Catalogue,
    call: &Call,
    request: validate_list_resource_config::Request,
) -> Result<validate_list_resource_config::Response, Diagnostics> {
    let entry = catalogue.list_resource(&request.type_name)?;
    let request = ValidateListRequest {
        config: received(&entry.layout, request.config, CONFIG)?,
        include_resource: received_as(&Type::Bool, request.include_resource_object, "include_resource")?,
        limit: received_as(&Type::Number, request.limit, "limit")?,
    };
    let diagnostics = entry.handler.validate(call, request).await;
    Ok(validate_list_resource_config::Response {
        diagnostics: convert::diagnostics(diagnostics),
    })
}

pub(crate) type ListStream = EventStream<ListEvent, list_resource::Event>;

/// A message with nothing but diagnostics, if there are any.
fn told(diagnostics: Diagnostics) -> Option<list_resource::Event> {
    if diagnostics.is_empty() {
        return None;
    }
    Some(list_resource::Event {
        diagnostic: convert::diagnostics(diagnostics),
        ..Default::default()
    })
}

pub(super) fn list(service: Service, call: Call, request: list_resource::Request) -> ListStream {
    let (events, receiver) = Events::channel(BUFFER);
    let for_events = service.clone();
    let type_name = request.type_name.clone();
    let include_resource = request.include_resource_object;
    let limit = u64::try_from(request.limit).unwrap_or(0);
    let mut objects = 0;
    let handler = async move {
        let entry = match service.catalogue().list_resource(&request.type_name) {
            Ok(entry) => entry,
            Err(diagnostics) => return diagnostics,
        };
        let config = match received(&entry.layout, request.config, CONFIG) {
            Ok(config) => config,
            Err(diagnostics) => return diagnostics,
        };
        let request = ListRequest {
            config,
            include_resource,
            limit: request.limit,
        };
        entry.handler.list(&call, request, events).await
    };
    let convert = move |event: ListEvent| {
        let is_object = event.identity.is_some();
        if limit > 0 && is_object && objects == limit {
            return Step::Stop;
        }
        objects += u64::from(is_object);
        let message = listed(for_events.catalogue(), &type_name, include_resource, event);
        if limit > 0 && objects == limit {
            Step::Finish(message)
        } else {
            Step::Send(message)
        }
    };
    EventStream::new(handler, receiver, convert, told)
}

fn listed(
    catalogue: &Catalogue,
    type_name: &str,
    include_resource: bool,
    event: ListEvent,
) -> list_resource::Event {
    let mut diagnostics = event.diagnostics;
    let mut message = list_resource::Event {
        display_name: event.display_name,
        ..Default::default()
    };
    match (catalogue.resource(type_name), event.identity) {
        (Err(error), _) => diagnostics.extend(error),
        (Ok(_), None) if diagnostics.is_empty() => diagnostics.push(
            Diagnostic::error("The provider listed an object without an identity")
                .detail("This is a bug in the provider: please report it."),
        ),
        (Ok(_), None) => {}
        (Ok(entry), Some(identity)) => {
            let encode = || -> Result<_, Diagnostics> {
                let identity = convert::sent_identity(entry.identity.as_ref(), Some(identity))?;
                let resource = event.resource.filter(|_| include_resource);
                let resource = resource
                    .map(|state| sent(&entry.layout, state, "a listed state"))
                    .transpose()?;
                Ok((identity, resource))
            };
            match encode() {
                Ok((identity, resource)) => {
                    message.identity = identity;
                    message.resource_object = resource;
                }
                Err(error) => diagnostics.extend(error),
            }
        }
    }
    message.diagnostic = convert::diagnostics(diagnostics);
    message
}

pub(super) async fn validate_action(
    catalogue: &Catalogue,
    call: &Call,
    request: validate_action_config::Request,
) -> Result<validate_action_config::Response, Diagnostics> {
    let entry = catalogue.action(&request.type_name)?;
    let config = received(&entry.layout, request.config, CONFIG)?;
    let diagnostics = entry.handler.validate(call, config).await;
    Ok(validate_action_config::Response {
        diagnostics: convert::diagnostics(diagnostics),
    })
}

pub(super) async fn plan_action(
    catalogue: &Catalogue,
    call: &Call,
    request: wire::plan_action::Request,
) -> Result<wire::plan_action::Response, Diagnostics> {
    let entry = catalogue.action(&request.action_type)?;
    let config = received(&entry.layout, request.config, CONFIG)?;
    let response = entry.handler.plan(call, config).await;
    Ok(wire::plan_action::Response {
        diagnostics: convert::diagnostics(response.diagnostics),
        deferred: convert::deferred(response.deferred),
    })
}

pub(crate) type ActionStream = EventStream<String, invoke_action::Event>;

pub(super) fn invoke(service: Service, call: Call, request: invoke_action::Request) -> ActionStream {
    use invoke_action::event::{Completed, Progress, Type as Kind};
    let (progress, receiver) = Events::channel(BUFFER);
    let handler = async move {
        let entry = match service.catalogue().action(&request.action_type) {
            Ok(entry) => entry,
            Err(diagnostics) => return diagnostics,
        };
        match received(&entry.layout, request.config, CONFIG) {
            Ok(config) => entry.handler.invoke(&call, config, progress).await,
            Err(diagnostics) => diagnostics,
        }
    };
    let message = |kind: Kind| invoke_action::Event { r#type: Some(kind) };
    EventStream::new(
        handler,
        receiver,
        move |text| Step::Send(message(Kind::Progress(Progress { message: text }))),
        move |diagnostics| {
            let diagnostics = convert::diagnostics(diagnostics);
            Some(message(Kind::Completed(Completed { diagnostics })))
        },
    )
}
