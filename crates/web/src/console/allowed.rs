//! Forms for visitors who may use them. Other visitors see the name of the form and the permission
//! that it needs. The broker decides again when it gets the form.

use levada_security::acl::{CLUSTER_NAME, Operation, ResourceType};
use maud::{Markup, html};

use super::Console;
use super::cluster::Permission;
use super::failure::missing;
use super::visitor::Visitor;

/// The permission that changes of users, of access control and of the broker itself need.
pub(super) const ALTER_CLUSTER: Permission<'static> = (Operation::Alter, ResourceType::Cluster, CLUSTER_NAME);

impl Console {
    /// A form with its title, or the title and the permission that the visitor lacks.
    pub(super) fn offered(
        &self,
        visitor: &Visitor,
        wanted: Permission<'_>,
        (title, form): (&str, Markup),
    ) -> Markup {
        if self.permits(visitor, wanted) { form } else { locked(visitor, wanted, title) }
    }

    /// Like [`Console::offered`], for a form whose resource has a name that the visitor chooses.
    pub(super) fn offered_for_some(
        &self,
        visitor: &Visitor,
        (operation, kind): (Operation, ResourceType),
        (title, form): (&str, Markup),
    ) -> Markup {
        if self.door.permits_some(visitor.caller.session(), (operation, kind)) {
            form
        } else {
            locked(visitor, (operation, kind, "NAME"), title)
        }
    }
}

/// The title of a form that the visitor may not use, with the permission that it needs.
fn locked(visitor: &Visitor, wanted: Permission<'_>, title: &str) -> Markup {
    html! {
        details.locked {
            summary { (title) " " span.form-tag { "not permitted" } }
            (missing(visitor, wanted))
        }
    }
}
