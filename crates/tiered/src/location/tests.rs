//! Tests of locations.

use std::path::PathBuf;

use super::{LocationError, StoreLayout, StoreLocation};

#[test]
fn locations_are_read_and_written() {
    let directory: StoreLocation = "file:///var/lib/tiers".parse().unwrap();
    assert_eq!(directory, StoreLocation::Directory(PathBuf::from("/var/lib/tiers")));
    assert_eq!((directory.prefix(), directory.is_directory()), ("", true));
    for (text, prefix) in
        [("s3://logs/", ""), ("s3://logs/eu/", "eu/"), ("gs://logs.example/a/b/", "a/b/"), ("az://logs/", "")]
    {
        let location: StoreLocation = text.parse().unwrap();
        assert_eq!((location.to_string().as_str(), location.prefix()), (text, prefix));
    }
    assert_eq!("s3://logs/eu".parse::<StoreLocation>(), "s3://logs/eu/".parse());
}

#[test]
fn other_locations_are_refused() {
    let parse = |text: &str| text.parse::<StoreLocation>().unwrap_err();
    assert!(matches!(parse("/var/lib/tiers"), LocationError::Scheme(_)));
    assert!(matches!(parse("http://host/bucket"), LocationError::Scheme(_)));
    assert!(matches!(parse("file://var/lib"), LocationError::Directory(_)));
    assert!(matches!(parse("s3://"), LocationError::Bucket(..)));
    assert!(matches!(parse("s3://user:secret@logs"), LocationError::Bucket(..)));
    assert!(matches!(parse("gs://logs/a//b"), LocationError::Prefix(_)));
    assert!(matches!(parse("gs://logs/../b"), LocationError::Prefix(_)));
    let scheme = parse("ftp://host").to_string();
    assert!(scheme.contains("s3://BUCKET") && scheme.contains("file:///DIRECTORY"), "{scheme}");
}

#[test]
fn store_layouts_are_parsed() {
    assert_eq!("aiven".parse(), Ok(StoreLayout::Aiven));
    assert_eq!("local".parse(), Ok(StoreLayout::Local));
    assert!("plain".parse::<StoreLayout>().is_err());
}
