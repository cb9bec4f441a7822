//! `profiles`: how the kinds of backend differ, axis by axis.
//!
//! Must not know any kind. Invariant: every axis is a row, every kind a column.

use super::TableOutput;
use crate::config::Kind;
use crate::contract::Profile;

/// The table of all kinds.
pub(super) fn render(kinds: &[&Kind], output: TableOutput) -> String {
    let columns: Vec<_> = kinds
        .iter()
        .map(|kind| (kind.name, (kind.profile)().answers()))
        .collect();
    match output {
        TableOutput::Json => {
            let profiles = columns.iter().map(|(name, answers)| {
                let axes = Profile::AXES.iter().zip(answers);
                let axes: serde_json::Map<_, _> = axes
                    .map(|(axis, answer)| ((*axis).to_owned(), (*answer).into()))
                    .collect();
                ((*name).to_owned(), axes.into())
            });
            format!("{:#}", serde_json::Value::Object(profiles.collect()))
        }
        TableOutput::Text | TableOutput::Markdown => table(&columns, output),
    }
}

fn table(columns: &[(&str, Vec<&str>)], output: TableOutput) -> String {
    let head = std::iter::once("axis")
        .chain(columns.iter().map(|(name, _)| *name))
        .collect();
    let mut rows: Vec<Vec<&str>> = vec![head];
    for (index, axis) in Profile::AXES.iter().enumerate() {
        let answers = columns
            .iter()
            .map(|(_, answers)| answers.get(index).copied().unwrap_or_default());
        rows.push(std::iter::once(*axis).chain(answers).collect());
    }
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.len())
            .max()
    };
    let widths: Vec<_> = (0..=columns.len())
        .map(|column| width(column).unwrap_or_default())
        .collect();
    let line = |row: &Vec<&str>| {
        let cells: Vec<_> = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        match output {
            TableOutput::Markdown => format!("| {} |\n", cells.join(" | ")),
            TableOutput::Text | TableOutput::Json => format!("{}\n", cells.join("  ").trim_end()),
        }
    };
    let mut lines: Vec<String> = rows.iter().map(line).collect();
    if output == TableOutput::Markdown {
        let rules: Vec<_> = widths.iter().map(|width| "-".repeat(*width)).collect();
        lines.insert(1, format!("|-{}-|\n", rules.join("-|-")));
    }
    lines.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_axis_is_a_row_in_every_form() {
        let columns = [("here", Profile::AXES.iter().map(|_| "yes").collect::<Vec<_>>())];
        for (output, beside) in [(TableOutput::Text, 1), (TableOutput::Markdown, 2)] {
            let table = table(&columns, output);
            assert_eq!(table.lines().count(), Profile::AXES.len() + beside, "{table}");
            for axis in Profile::AXES {
                assert!(table.contains(axis), "{axis} is missing in:\n{table}");
            }
        }
    }
}
