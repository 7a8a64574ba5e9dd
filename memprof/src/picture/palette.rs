//! Colours: one hue for each group, shades of it for components, readable without colour vision.
//!
//! The hues are those of Okabe and Ito. Adjacent areas of the stack also differ in lightness and
//! are separated by thin lines, so the picture does not depend on hue alone.

use super::Theme;

/// The groups in the order in which they are stacked, from the bottom up.
pub const GROUPS: [&str; 11] = [
    "application",
    "mpi",
    "mpi.for_user",
    "runtime",
    "omp",
    "stack",
    "system",
    "slack",
    "kernel",
    "tool",
    "unattributed",
];

const HUES: [(u8, u8, u8); 11] = [
    (0x00, 0x72, 0xb2),
    (0xd5, 0x5e, 0x00),
    (0xf0, 0x9e, 0x6a),
    (0x00, 0x9e, 0x73),
    (0xcc, 0x79, 0xa7),
    (0xe6, 0xb4, 0x1e),
    (0x56, 0xb4, 0xe9),
    (0xb0, 0xb4, 0xba),
    (0x8a, 0x6d, 0x5a),
    (0x7d, 0x5f, 0xa8),
    (0x45, 0x4a, 0x52),
];

/// Step of each shade towards white (positive) or black.
const STEPS: [f64; SHADES] = [0.0, 0.30, -0.24, 0.50, 0.15, 0.62];
/// Number of distinguishable components of a group.
pub(super) const SHADES: usize = 6;

/// Defines the colours of [`Theme::Page`], for light and dark, as the reader's system or `data-theme` says.
pub const PAGE_CSS: &str = "\
:root{--memprof-ink:#1b1f24;--memprof-muted:#5b6470;--memprof-grid:#e3e6ea;--memprof-paper:#ffffff;--memprof-shade:#f2f4f7;--memprof-strip:#dfe4ea}
@media (prefers-color-scheme:dark){:root:not([data-theme=light]){--memprof-ink:#e8eaed;--memprof-muted:#9aa4b0;--memprof-grid:#31363d;--memprof-paper:#16191d;--memprof-shade:#1e2227;--memprof-strip:#343b44}}
:root[data-theme=dark]{--memprof-ink:#e8eaed;--memprof-muted:#9aa4b0;--memprof-grid:#31363d;--memprof-paper:#16191d;--memprof-shade:#1e2227;--memprof-strip:#343b44}
";

/// Colours of everything except the data.
pub(super) struct Inks {
    pub ink: &'static str,
    pub muted: &'static str,
    pub grid: &'static str,
    pub paper: &'static str,
    pub shade: &'static str,
    pub strip: &'static str,
}

pub(super) fn inks(theme: Theme) -> Inks {
    match theme {
        Theme::Light => Inks {
            ink: "#1b1f24",
            muted: "#5b6470",
            grid: "#e3e6ea",
            paper: "#ffffff",
            shade: "#f2f4f7",
            strip: "#dfe4ea",
        },
        Theme::Dark => Inks {
            ink: "#e8eaed",
            muted: "#9aa4b0",
            grid: "#31363d",
            paper: "#16191d",
            shade: "#1e2227",
            strip: "#343b44",
        },
        Theme::Page => Inks {
            ink: "var(--memprof-ink)",
            muted: "var(--memprof-muted)",
            grid: "var(--memprof-grid)",
            paper: "var(--memprof-paper)",
            shade: "var(--memprof-shade)",
            strip: "var(--memprof-strip)",
        },
    }
}

/// Returns the group of a component by the first word of its display name.
pub fn group_of(component: &str) -> &'static str {
    let class = component.split([':', '.']).next().unwrap_or_default();
    if class == "app" {
        return "application";
    }
    let class = if component == "mpi.for_user" { component } else { class };
    GROUPS.iter().copied().find(|group| *group == class).unwrap_or("unattributed")
}

/// Returns the index of a group in the stack.
pub(super) fn place_of(group: &str) -> usize {
    GROUPS.iter().position(|known| *known == group).unwrap_or(GROUPS.len() - 1)
}

/// Colours of the components of one picture, or of all pictures of a report.
///
/// The same name gets the same colour in every picture, as long as no other component of the picture wants
/// it too.
#[derive(Debug, Clone, Default)]
pub struct Shades {
    chosen: Vec<(String, String)>,
}

impl Shades {
    /// Colours for these components, given as name and group.
    pub fn of<'a>(components: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut sorted: Vec<_> = components.into_iter().collect();
        sorted.sort_unstable();
        sorted.dedup();
        let mut taken = [[false; STEPS.len()]; GROUPS.len()];
        let mut chosen = Vec::with_capacity(sorted.len());
        // Components with a fixed shade take it before the others choose.
        for fixed in [true, false] {
            for (name, group) in &sorted {
                let (place, wish) = (place_of(group), own_shade(name));
                if wish.is_some() != fixed {
                    continue;
                }
                let first = wish.unwrap_or_else(|| hash(name) % STEPS.len());
                let shade = (0..STEPS.len())
                    .map(|step| (first + step) % STEPS.len())
                    .find(|shade| !taken[place][*shade])
                    .unwrap_or(first);
                taken[place][shade] = true;
                chosen.push(((*name).to_owned(), colour(place, shade)));
            }
        }
        chosen.sort_unstable();
        Self { chosen }
    }

    /// Returns the colour of a component as `#rrggbb`.
    pub fn colour(&self, name: &str, group: &str) -> String {
        match self.chosen.binary_search_by(|(known, _)| known.as_str().cmp(name)) {
            Ok(index) => self.chosen[index].1.clone(),
            Err(_) => colour(place_of(group), hash(name) % STEPS.len()),
        }
    }
}

/// Returns the fixed shade of components that every job has, which readers recognize by colour
/// alone.
fn own_shade(name: &str) -> Option<usize> {
    match name {
        "app.exe" | "mpi.core" | "stack.main" | "unattributed" | "tool" | "slack" | "kernel"
        | "runtime" | "mpi.for_user" => Some(0),
        "mpi.shm" => Some(1),
        "app.shm" => Some(3),
        name if name.starts_with("app.exe:") || name.starts_with("mpi.core:") => Some(0),
        _ => None,
    }
}

fn colour(place: usize, shade: usize) -> String {
    let (red, green, blue) = HUES[place];
    let step = STEPS[shade];
    let mix = |channel: u8| {
        let target = if step >= 0.0 { 255.0 } else { 0.0 };
        (f64::from(channel) + (target - f64::from(channel)) * step.abs()).round() as u8
    };
    format!("#{:02x}{:02x}{:02x}", mix(red), mix(green), mix(blue))
}

/// Computes FNV-1a, which is the same on every machine and in every version.
fn hash(name: &str) -> usize {
    let hash = name
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    (hash >> 8) as usize
}

/// Returns black or white, whichever is readable on a colour.
pub(super) fn text_on(colour: &str) -> &'static str {
    let channel = |at: usize| {
        colour.get(at..at + 2).and_then(|hex| u8::from_str_radix(hex, 16).ok()).unwrap_or(0)
    };
    let linear = |value: u8| (f64::from(value) / 255.0).powf(2.2);
    let light =
        0.2126 * linear(channel(1)) + 0.7152 * linear(channel(3)) + 0.0722 * linear(channel(5));
    if light > 0.2 { "#14171a" } else { "#ffffff" }
}

/// Returns a colour of the heat map scale: dark violet to yellow (viridis, seven stops), uniform in
/// lightness.
pub(super) fn heat_colour(share: f64) -> String {
    const STOPS: [(u8, u8, u8); 7] = [
        (0x44, 0x01, 0x54),
        (0x44, 0x39, 0x83),
        (0x31, 0x68, 0x8e),
        (0x21, 0x91, 0x8c),
        (0x35, 0xb7, 0x79),
        (0x90, 0xd7, 0x43),
        (0xfd, 0xe7, 0x25),
    ];
    let place = share.clamp(0.0, 1.0) * (STOPS.len() - 1) as f64;
    let index = (place as usize).min(STOPS.len() - 2);
    let part = place - index as f64;
    let mix = |from: u8, to: u8| {
        (f64::from(from) + (f64::from(to) - f64::from(from)) * part).round() as u8
    };
    let (from, to) = (STOPS[index], STOPS[index + 1]);
    format!("#{:02x}{:02x}{:02x}", mix(from.0, to.0), mix(from.1, to.1), mix(from.2, to.2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_follow_from_names() {
        for (name, group) in [
            ("app.exe:solver", "application"),
            ("app.shm", "application"),
            ("mpi.dep:libopen-pal.so.40", "mpi"),
            ("mpi.for_user", "mpi.for_user"),
            ("stack:libc.so.6", "stack"),
            ("slack", "slack"),
            ("something new", "unattributed"),
        ] {
            assert_eq!(group_of(name), group);
        }
    }

    #[test]
    fn components_differ_in_colour_and_keep_it_in_other_company() {
        let names =
            ["mpi.core:libmpi.so", "mpi.dep:libopen-pal.so.40", "mpi.dep:libpmix.so.2", "mpi.shm"];
        let shades = Shades::of(names.map(|name| (name, "mpi")));
        let mut colours: Vec<_> = names.iter().map(|name| shades.colour(name, "mpi")).collect();
        let alone = Shades::of([("mpi.core:libmpi.so", "mpi"), ("app.exe:x", "application")]);
        assert_eq!(alone.colour("mpi.core:libmpi.so", "mpi"), colours[0]);
        colours.sort();
        colours.dedup();
        assert_eq!(colours.len(), names.len());
    }

    #[test]
    fn text_is_readable_on_every_shade() {
        let linear = |colour: &str, at: usize| {
            (f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0).powf(2.2)
        };
        let light = |colour: &str| {
            0.2126 * linear(colour, 1)
                + 0.7152 * linear(colour, 3)
                + 0.0722 * linear(colour, 5)
                + 0.05
        };
        for (place, group) in GROUPS.iter().enumerate() {
            for shade in 0..STEPS.len() {
                let colour = colour(place, shade);
                let (one, other) = (light(&colour), light(text_on(&colour)));
                assert!(one.max(other) / one.min(other) > 4.0, "{group} {colour}");
            }
        }
    }
}
