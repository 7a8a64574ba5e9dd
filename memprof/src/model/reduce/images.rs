//! Mappings of files by component: its objects, and for the C library those that it maps unseen.

use memprof_trace::layout::{Class, segment};
use memprof_trace::read::Trace;
use std::collections::{HashMap, HashSet};

/// Returns the mapped bytes by component number.
pub fn images(trace: &Trace) -> HashMap<usize, u64> {
    let mut images: HashMap<usize, u64> = HashMap::new();
    let mut objects = HashSet::new();
    let mut add = |component: u32, bytes: u64| {
        let image = images.entry(component as usize).or_default();
        *image = image.saturating_add(bytes);
    };
    for object in &trace.objects {
        add(object.row.component, object.row.size);
        objects.insert(stem(&object.row.path.to_string()).to_owned());
    }
    // Locales and character set tables: no call is seen, since the C library maps them for its own
    // use.
    for segment in trace.segments.iter().map(|segment| &segment.row.row) {
        let class = trace.component(segment.component as usize).map(|row| row.class());
        if class == Some(Class::System)
            && segment.flags & segment::GONE == 0
            && !objects.contains(stem(&segment.path.to_string()))
        {
            add(segment.component, segment.size);
        }
    }
    images
}

/// Returns `libc` for `/lib/libc.so.6` and for `/usr/lib/libc-2.31.so`: links to a file have other
/// names than the file.
fn stem(path: &str) -> &str {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.split(['.', '-']).next().unwrap_or(file)
}

#[cfg(test)]
mod tests {
    use super::stem;

    #[test]
    fn a_library_and_the_link_to_it_have_one_stem() {
        assert_eq!(stem("/usr/lib/libc-2.31.so"), stem("/lib/x86_64-linux-gnu/libc.so.6"));
        assert_eq!(stem("/usr/lib/libgfortran.so.5.0.0"), stem("libgfortran.so.5"));
        assert_ne!(stem("/usr/lib/locale/C.utf8/LC_CTYPE"), stem("/lib/libc.so.6"));
    }
}
