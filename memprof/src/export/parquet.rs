//! Parquet: the columns of CSV, a row group for each rank.

use super::{History, Kind};
use crate::model::{Group, Rank};
use parquet::basic::Compression;
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::io::Write;
use std::sync::Arc;

const SCHEMA: &str = "message memprof {
    optional int32 rank; required binary host (UTF8); required int32 pid (UINT_32); required double time_s;
    required binary kind (UTF8); required binary phase (UTF8); required binary component (UTF8);
    required binary group (UTF8); required int64 owned (UINT_64); required int64 resident (UINT_64);
    required int64 resident_low (UINT_64); required int64 resident_high (UINT_64);
    optional int64 shared (UINT_64); optional int64 swapped (UINT_64);
}";

/// A file being written.
pub(super) struct Table<W: Write + Send> {
    writer: SerializedFileWriter<W>,
}

/// A column of one rank.
enum Column {
    Rank(Option<i32>),
    Pid(i32),
    Time(Vec<f64>),
    Text(Vec<ByteArray>),
    Bytes(Vec<i64>),
    Sometimes(Vec<i64>, Vec<i16>),
}

impl<W: Write + Send> Table<W> {
    pub fn begin(out: W) -> anyhow::Result<Self> {
        let schema = Arc::new(parse_message_type(SCHEMA)?);
        let properties = WriterProperties::builder().set_compression(Compression::UNCOMPRESSED);
        let properties = properties.set_created_by("memprof".into()).build();
        Ok(Self { writer: SerializedFileWriter::new(out, schema, Arc::new(properties))? })
    }

    pub fn rank(&mut self, rank: &Rank, history: &History) -> anyhow::Result<()> {
        let count: usize = history.points.iter().map(|point| point.rows.len()).sum();
        if count == 0 {
            return Ok(());
        }
        let mut group = self.writer.next_row_group()?;
        let mut columns = columns(rank, history, count).into_iter();
        while let Some(mut writer) = group.next_column()? {
            let column = columns.next();
            match (writer.untyped(), column) {
                (ColumnWriter::Int32ColumnWriter(to), Some(Column::Rank(number))) => {
                    let levels = vec![i16::from(number.is_some()); count];
                    let values =
                        vec![number.unwrap_or(0); if number.is_some() { count } else { 0 }];
                    to.write_batch(&values, Some(&levels), None)?;
                }
                (ColumnWriter::Int32ColumnWriter(to), Some(Column::Pid(pid))) => {
                    to.write_batch(&vec![pid; count], None, None)?;
                }
                (ColumnWriter::DoubleColumnWriter(to), Some(Column::Time(values))) => {
                    to.write_batch(&values, None, None)?;
                }
                (ColumnWriter::ByteArrayColumnWriter(to), Some(Column::Text(values))) => {
                    to.write_batch(&values, None, None)?;
                }
                (ColumnWriter::Int64ColumnWriter(to), Some(Column::Bytes(values))) => {
                    to.write_batch(&values, None, None)?;
                }
                (ColumnWriter::Int64ColumnWriter(to), Some(Column::Sometimes(values, levels))) => {
                    to.write_batch(&values, Some(&levels), None)?;
                }
                _ => anyhow::bail!("a column of the Parquet file has another type than its values"),
            }
            writer.close()?;
        }
        group.close()?;
        Ok(())
    }

    pub fn end(self) -> anyhow::Result<()> {
        self.writer.close()?;
        Ok(())
    }
}

/// The values of a rank, in the order of the schema.
fn columns(rank: &Rank, history: &History, count: usize) -> Vec<Column> {
    let text = |value: &str| ByteArray::from(value.as_bytes().to_vec());
    let host = text(&rank.identity.host);
    let names: Vec<(ByteArray, ByteArray)> =
        history.names.iter().map(|name| (text(name), text(Group::of(name).label()))).collect();
    let rows =
        || history.points.iter().flat_map(|point| point.rows.iter().map(move |row| (point, row)));
    let bytes = |value: fn(&super::Row) -> u64| {
        Column::Bytes(rows().map(|(_, row)| value(row) as i64).collect())
    };
    let sometimes = |value: fn(&super::Row) -> u64| {
        let known = rows().filter(|(point, _)| point.kind == Kind::Sample);
        let levels = rows().map(|(point, _)| i16::from(point.kind == Kind::Sample)).collect();
        Column::Sometimes(known.map(|(_, row)| value(row) as i64).collect(), levels)
    };
    let by_point = |value: &dyn Fn(&super::Point) -> ByteArray| {
        let with_rows = history.points.iter().filter(|point| !point.rows.is_empty());
        let each = with_rows.flat_map(|point| vec![value(point); point.rows.len()]);
        Column::Text(each.collect())
    };
    vec![
        Column::Rank(rank.identity.rank.and_then(|rank| i32::try_from(rank).ok())),
        Column::Text(vec![host; count]),
        Column::Pid(rank.identity.pid as i32),
        Column::Time(rows().map(|(point, _)| point.time_ns as f64 / 1e9).collect()),
        by_point(&|point| text(point.kind.label())),
        by_point(&|point| text(history.phase_at(point.time_ns))),
        Column::Text(rows().map(|(_, row)| names[row.component].0.clone()).collect()),
        Column::Text(rows().map(|(_, row)| names[row.component].1.clone()).collect()),
        bytes(|row| row.owned),
        bytes(|row| row.resident),
        bytes(|row| row.low),
        bytes(|row| row.high),
        sometimes(|row| row.shared),
        sometimes(|row| row.swapped),
    ]
}
