//! Tests of the numbers in a filter.

use super::*;

/// A request with these numbers of resource type, pattern type, operation and permission.
fn request([resource_type, pattern_type, operation, permission]: [i8; 4]) -> DescribeAclsRequest {
    message!(DescribeAclsRequest {
        resource_type_filter: resource_type,
        pattern_type_filter: pattern_type,
        operation: operation,
        permission_type: permission,
    })
}

#[test]
fn acl_filter_with_unused_code_matches_nothing() {
    for codes in [[99, 1, 1, 1], [1, 99, 1, 1], [1, 1, 99, 1], [1, 1, 1, 99], [-1, 1, 1, 1]] {
        assert_eq!(filter(&request(codes)), Ok(None), "{codes:?}");
    }
    assert!(matches!(filter(&request([1, 1, 1, 1])), Ok(Some(_))));
    for codes in [[0, 1, 1, 1], [1, 0, 1, 1], [1, 1, 0, 1], [1, 1, 1, 0], [0, 99, 1, 1]] {
        filter(&request(codes)).unwrap_err();
    }
}
