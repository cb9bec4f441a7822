//! The last warnings of a Pod, for whoever waits for it.
//!
//! It must not decide anything. Invariant: warnings that cannot be read are no failure: a role may lack
//! them.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;

use super::state::join;

/// How many warnings are told.
const TOLD: usize = 3;

/// The last warnings, the newest first; `None` where there are none.
pub(super) fn last_warnings(mut events: Vec<Event>) -> Option<String> {
    events.retain(|event| event.type_.as_deref() == Some("Warning"));
    events.sort_by_key(|event| std::cmp::Reverse(seen_at(event)));
    let mut told: Vec<String> = Vec::new();
    for event in &events {
        let text = join(
            event.reason.as_deref().unwrap_or("Warning"),
            event.message.clone(),
        );
        if !told.contains(&text) {
            told.push(text);
        }
    }
    told.truncate(TOLD);
    (!told.is_empty()).then(|| format!("last warnings: {}", told.join("; ")))
}

/// When an event was last seen, by whichever of its times its reporter sets.
fn seen_at(event: &Event) -> Option<Timestamp> {
    let series = event
        .series
        .as_ref()
        .and_then(|series| series.last_observed_time.as_ref());
    let times = [
        event.last_timestamp.as_ref().map(|time| time.0),
        series.map(|time| time.0),
        event.event_time.as_ref().map(|time| time.0),
        event.first_timestamp.as_ref().map(|time| time.0),
        event.metadata.creation_timestamp.as_ref().map(|time| time.0),
    ];
    times.into_iter().flatten().max()
}

/// What finds the warnings of one Pod, not of an earlier one of its name.
pub(super) fn selector(pod_uid: &str) -> String {
    format!("involvedObject.uid={pod_uid},type=Warning")
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};

    use super::*;

    fn event(reason: &str, second: i64) -> Event {
        Event {
            type_: Some("Warning".to_owned()),
            reason: Some(reason.to_owned()),
            message: Some(format!("{reason} happened\non two lines")),
            last_timestamp: Some(Time(Timestamp::from_second(second).expect("a time"))),
            ..Event::default()
        }
    }

    #[test]
    fn the_newest_come_first_and_once() {
        let mut newest = event("BackOff", 0);
        newest.last_timestamp = None;
        newest.event_time = Some(MicroTime(Timestamp::from_second(90).expect("a time")));
        let mut normal = event("Scheduled", 99);
        normal.type_ = Some("Normal".to_owned());
        let told = last_warnings(vec![
            event("FailedScheduling", 1),
            event("FailedMount", 2),
            event("Failed", 50),
            event("Failed", 51),
            newest,
            normal,
        ]);
        assert_eq!(
            told.as_deref(),
            Some(
                "last warnings: BackOff: BackOff happened on two lines; Failed: Failed happened on two lines; \
                 FailedMount: FailedMount happened on two lines"
            )
        );
    }

    #[test]
    fn no_warning_is_nothing_to_tell() {
        assert_eq!(last_warnings(Vec::new()), None);
    }
}
