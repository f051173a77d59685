//! The media type of a file, by its extension.

use mime_guess::mime;

/// The type of the file that a path names, with UTF-8 as the charset of text; bytes if the ending
/// is not known.
#[must_use]
pub(crate) fn of(path: &[u8]) -> String {
    let path = String::from_utf8_lossy(path);
    let guessed = mime_guess::from_path(&*path).first_raw().unwrap_or("application/octet-stream");
    let is_text = guessed.starts_with("text/") || guessed == "application/javascript";
    let charset = mime::UTF_8.as_str();
    if is_text { format!("{guessed}; charset={charset}") } else { guessed.to_owned() }
}

#[cfg(test)]
mod tests {
    #[test]
    fn content_type_follows_the_file_extension() {
        assert_eq!(super::of(b"a/b.html"), "text/html; charset=utf-8");
        assert_eq!(super::of(b"app.js"), "text/javascript; charset=utf-8");
        assert_eq!(super::of(b"photo.JPG"), "image/jpeg");
        assert_eq!(super::of(b"module.wasm"), "application/wasm");
        assert_eq!(super::of(b"clip.mp4"), "video/mp4");
        assert_eq!(super::of(b"README"), "application/octet-stream");
        assert_eq!(super::of(b"\xff.nothing"), "application/octet-stream");
    }
}
