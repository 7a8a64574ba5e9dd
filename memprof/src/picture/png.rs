//! Renders an SVG to pixels with built-in fonts: the result is the same on every machine, with or
//! without fonts.

use std::sync::{Arc, OnceLock};

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};

/// More pixels than these are a mistake of the caller.
const MOST_PIXELS: f64 = 64e6;

/// Why an SVG did not become a PNG.
#[derive(Debug, thiserror::Error)]
pub enum PictureError {
    /// The text is no SVG that can be drawn.
    #[error("the picture cannot be drawn: {0}")]
    Svg(#[from] resvg::usvg::Error),
    /// It has no size, or far too much of it.
    #[error("a picture of {width:.0} x {height:.0} pixels cannot be drawn: at most 64 million are")]
    Size {
        /// Pixels across.
        width: f64,
        /// Pixels down.
        height: f64,
    },
    /// The pixels could not be packed.
    #[error("the picture cannot be written as PNG: {0}")]
    Png(String),
}

/// Converts an SVG into a PNG, with `scale` PNG pixels for each SVG pixel. Not for
/// [`super::Theme::Page`], whose colours are defined only in a page.
///
/// # Errors
/// If the SVG cannot be parsed, or the picture is too large to draw.
pub fn png(svg: &str, scale: f32) -> Result<Vec<u8>, PictureError> {
    let options =
        Options { fontdb: fonts(svg), font_family: "Ubuntu".into(), ..Options::default() };
    let tree = Tree::from_str(svg, &options)?;
    let (width, height) = (
        f64::from(tree.size().width() * scale).ceil(),
        f64::from(tree.size().height() * scale).ceil(),
    );
    let size_error = PictureError::Size { width, height };
    if !(width >= 1.0 && height >= 1.0 && width * height <= MOST_PIXELS) {
        return Err(size_error);
    }
    let mut pixels = Pixmap::new(width as u32, height as u32).ok_or(size_error)?;
    resvg::render(&tree, Transform::from_scale(scale, scale), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| PictureError::Png(error.to_string()))
}

/// Returns the built-in font and, for scripts that it lacks, also the machine's fonts.
fn fonts(svg: &str) -> Arc<fontdb::Database> {
    static BROUGHT: OnceLock<Arc<fontdb::Database>> = OnceLock::new();
    static WITH_MACHINE: OnceLock<Arc<fontdb::Database>> = OnceLock::new();
    let brought = BROUGHT.get_or_init(|| {
        let mut fonts = fontdb::Database::new();
        fonts.load_font_data(epaint_default_fonts::UBUNTU_LIGHT.to_vec());
        fonts.set_sans_serif_family("Ubuntu");
        Arc::new(fonts)
    });
    // Latin, Greek and Cyrillic, and the punctuation pictures use.
    let known = |character: char| matches!(character, '\0'..='\u{4ff}' | '\u{2010}'..='\u{2027}' | '\u{fffd}');
    if svg.chars().all(known) {
        return Arc::clone(brought);
    }
    Arc::clone(WITH_MACHINE.get_or_init(|| {
        let mut fonts = fontdb::Database::clone(brought);
        fonts.load_system_fonts();
        fonts.set_sans_serif_family("Ubuntu");
        Arc::new(fonts)
    }))
}
