//! `levada acl list|add|remove`: access control entries.

mod entry;

use std::io::Write;

use clap::Subcommand;
use levada_client::Cluster;
use levada_security::acl::{Acl, CLUSTER_NAME, Operation, PatternType, Permission, ResourceType};
use levada_terminal::failure::Failure;
use levada_terminal::output::{self, Format, FormatArgs, counted};
use levada_wire::StrBytes;
use levada_wire::messages::create_acls_request::AclCreation;
use levada_wire::messages::delete_acls_request::DeleteAclsFilter;
use levada_wire::messages::delete_acls_response::DeleteAclsFilterResult;
use levada_wire::messages::{CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest};

use self::entry::{Row, check_effect, operation, principal};
use crate::cluster::ClusterCommand;
use crate::outcomes::{Outcome, Outcomes};
use crate::{kafka_error, question};

/// List, add and remove ACLs
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  levada acl list
  levada acl add alice --allow read,write --topic clicks
  levada acl add alice --allow read --topic clicks- --group readers- --prefix
  levada acl add '*' --deny delete --topic audit
  levada acl remove alice --allow write --topic clicks")]
pub(crate) enum Verb {
    List(List),
    Add(Change),
    Remove(Remove),
}

/// Resources of entries.
#[derive(Debug, clap::Args)]
pub(crate) struct Resources {
    /// A topic, or * for all; repeatable
    #[arg(short, long, value_name = "NAME")]
    topic: Vec<String>,
    /// A group, or * for all; repeatable
    #[arg(short, long, value_name = "NAME")]
    group: Vec<String>,
    /// A transactional id, or * for all; repeatable
    #[arg(long, value_name = "ID")]
    transactional_id: Vec<String>,
    /// The cluster
    #[arg(long)]
    cluster: bool,
}

/// List entries
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada acl list
  levada acl list --topic clicks                 all entries that apply to this topic
  levada acl list --principal alice --output json")]
pub(crate) struct List {
    #[command(flatten)]
    resources: Resources,
    /// Only entries of this principal
    #[arg(short, long, value_name = "PRINCIPAL")]
    principal: Option<String>,
    #[command(flatten)]
    format: FormatArgs,
}

/// Add entries: one for each operation on each resource
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada acl add alice --allow read,describe --topic clicks
  levada acl add User:CN=app --allow all --topic app- --prefix
  levada acl add alice --allow alter --cluster --host 10.0.0.7")]
pub(crate) struct Change {
    /// Principal of the entries: NAME or User:NAME, or * for every user
    #[arg(value_name = "PRINCIPAL")]
    principal: String,
    #[command(flatten)]
    resources: Resources,
    /// Operations that are allowed, separated by commas
    #[arg(long, value_name = "OPERATIONS", value_delimiter = ',', value_parser = operation)]
    allow: Vec<Operation>,
    /// Operations that are denied, separated by commas
    #[arg(long, value_name = "OPERATIONS", value_delimiter = ',', value_parser = operation)]
    deny: Vec<Operation>,
    /// Treat the names as prefixes
    #[arg(long)]
    prefix: bool,
    /// Only from this address
    #[arg(long, value_name = "ADDRESS", default_value = EVERY_HOST)]
    host: String,
    #[command(flatten)]
    format: FormatArgs,
}

/// Remove the entries that the same arguments would add
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada acl remove alice --allow read --topic clicks
  levada acl remove alice                        all entries of alice")]
pub(crate) struct Remove {
    #[command(flatten)]
    change: Change,
    #[command(flatten)]
    question: question::Args,
}

pub(crate) fn run(args: ClusterCommand<Verb>, out: &mut dyn Write) -> Result<(), Failure> {
    let mut cluster = args.brokers.connect()?;
    match args.verb {
        Verb::List(list) => list.run(&mut cluster, out),
        Verb::Add(change) => change.add(&mut cluster, out),
        Verb::Remove(remove) => remove.run(&mut cluster, out),
    }
}

impl Resources {
    fn all(&self) -> Vec<(ResourceType, &str)> {
        let named = [
            (ResourceType::Topic, &self.topic),
            (ResourceType::Group, &self.group),
            (ResourceType::TransactionalId, &self.transactional_id),
        ];
        let named =
            named.into_iter().flat_map(|(kind, names)| names.iter().map(move |name| (kind, name.as_str())));
        let cluster = self.cluster.then_some((ResourceType::Cluster, CLUSTER_NAME));
        named.chain(cluster).collect()
    }
}

impl List {
    fn run(&self, cluster: &mut Cluster, out: &mut dyn Write) -> Result<(), Failure> {
        let mut rows = Vec::new();
        let asked: Vec<Option<(ResourceType, &str)>> = match self.resources.all() {
            all if all.is_empty() => vec![None],
            all => all.into_iter().map(Some).collect(),
        };
        for resource in asked {
            rows.extend(self.ask(cluster, resource)?);
        }
        rows.sort();
        rows.dedup();
        match self.format.format {
            Format::Json => output::json(out, &rows),
            Format::Table => {
                let header = ["RESOURCE", "PATTERN", "NAME", "PRINCIPAL", "HOST", "OPERATION", "PERMISSION"];
                output::table(out, &header, rows.into_iter().map(Row::cells).collect())
            }
        }
    }

    fn ask(
        &self,
        cluster: &mut Cluster,
        resource: Option<(ResourceType, &str)>,
    ) -> Result<Vec<Row>, Failure> {
        const ANY: i8 = 1;
        const MATCH: i8 = 2;
        let mut request = DescribeAclsRequest::default();
        request.resource_type_filter = resource.map_or(ANY, |(kind, _)| kind.code());
        request.resource_name_filter = resource.map(|(_, name)| StrBytes::from(name));
        request.pattern_type_filter = if resource.is_some() { MATCH } else { ANY };
        request.principal_filter = self.principal.as_deref().map(|name| StrBytes::from(principal(name)));
        request.host_filter = None;
        (request.operation, request.permission_type) = (ANY, ANY);
        let response = cluster.ask(&request)?;
        let checked =
            kafka_error::check(response.error_code, "list access control", response.error_message.as_deref());
        kafka_error::needing(checked, "describe", "--cluster")?;
        Ok(response.resources.iter().flat_map(Row::of).collect())
    }
}

/// Every address, as entries have it.
const EVERY_HOST: &str = "*";

impl Change {
    /// True if no option restricts the entries.
    fn names_a_principal_only(&self) -> bool {
        let has_operations = !self.allow.is_empty() || !self.deny.is_empty();
        let has_resources = self.prefix || !self.resources.all().is_empty();
        !has_operations && !has_resources && self.host == EVERY_HOST
    }

    /// The entries that these words mean.
    fn entries(&self) -> Result<Vec<Acl>, Failure> {
        let resources = self.resources.all();
        let allowed = self.allow.iter().map(|operation| (*operation, Permission::Allow));
        let denied = self.deny.iter().map(|operation| (*operation, Permission::Deny));
        let operations: Vec<_> = allowed.chain(denied).collect();
        if resources.is_empty() || operations.is_empty() {
            let what = "an entry needs a resource (--topic, --group, --transactional-id or --cluster) and \
                        operations (--allow or --deny)";
            return Err(Failure::Usage(what.to_owned()));
        }
        let pattern_type = if self.prefix { PatternType::Prefixed } else { PatternType::Literal };
        let entry = |(kind, name): (ResourceType, &str), (operation, permission)| Acl {
            resource_type: kind,
            resource_name: name.to_owned(),
            pattern_type: if kind == ResourceType::Cluster { PatternType::Literal } else { pattern_type },
            principal: principal(&self.principal),
            host: self.host.clone(),
            operation,
            permission,
        };
        let of = |resource| operations.iter().map(move |operation| entry(resource, *operation));
        Ok(resources.into_iter().flat_map(of).collect())
    }

    fn add(&self, cluster: &mut Cluster, out: &mut dyn Write) -> Result<(), Failure> {
        let entries = self.entries()?;
        entries.iter().try_for_each(|entry| check_effect(entry.resource_type, entry.operation))?;
        let mut request = CreateAclsRequest::default();
        request.creations = entries.iter().map(creation).collect();
        let response = cluster.ask(&request)?;
        let mut outcomes = Outcomes::new(self.format);
        for (entry, result) in entries.iter().zip(&response.results) {
            let doing = format!("add {entry}");
            let checked = kafka_error::check(result.error_code, &doing, result.error_message.as_deref());
            let done = kafka_error::needing(checked, "alter", "--cluster");
            outcomes.note(("acl", &entry.to_string()), done, &format!("added {entry}"));
        }
        outcomes.end(out)
    }
}

impl Remove {
    fn run(&self, cluster: &mut Cluster, out: &mut dyn Write) -> Result<(), Failure> {
        let change = &self.change;
        let principal = principal(&change.principal);
        let mut request = DeleteAclsRequest::default();
        let what = if change.names_a_principal_only() {
            request.filters = vec![everything(&principal)];
            format!("remove all entries of {principal}")
        } else {
            let entries = change.entries()?;
            request.filters = entries.iter().map(exactly).collect();
            format!("remove {}", entries.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
        };
        self.question.ask(&what, "nothing was removed")?;
        let response = cluster.ask(&request)?;
        let (mut removed, mut failed) = (0, 0);
        let mut outcomes = Outcomes::new(change.format);
        for (code, said) in response.filter_results.iter().flat_map(results) {
            let checked = kafka_error::check(code, "remove entries", said);
            match kafka_error::needing(checked, "alter", "--cluster") {
                Ok(()) => removed += 1,
                Err(failure) => {
                    failed += 1;
                    outcomes.fail(("acl", &principal), failure);
                }
            }
        }
        if removed == 0 && failed == 0 {
            let failure = Failure::with_next(
                format!("{what}: no such entry exists"),
                format!("levada acl list --principal '{principal}' shows the entries of {principal}"),
            );
            outcomes.fail(("acl", &principal), failure);
        } else if removed > 0 {
            let said = format!("removed {}", counted(removed, "entry", "entries"));
            outcomes.add(("acl", &principal), Outcome::Done, &said);
        }
        outcomes.end(out)
    }
}

/// The error code and the message of each entry that a filter matches, or of the filter itself.
fn results(result: &DeleteAclsFilterResult) -> Vec<(i16, Option<&str>)> {
    if result.error_code != 0 {
        return vec![(result.error_code, result.error_message.as_deref())];
    }
    result.matching_acls.iter().map(|one| (one.error_code, one.error_message.as_deref())).collect()
}

fn creation(acl: &Acl) -> AclCreation {
    let mut creation = AclCreation::default();
    creation.resource_type = acl.resource_type.code();
    creation.resource_name = StrBytes::from(acl.resource_name.as_str());
    creation.resource_pattern_type = acl.pattern_type.code();
    creation.principal = StrBytes::from(acl.principal.as_str());
    creation.host = StrBytes::from(acl.host.as_str());
    creation.operation = acl.operation.code();
    creation.permission_type = acl.permission.code();
    creation
}

fn exactly(acl: &Acl) -> DeleteAclsFilter {
    let mut filter = DeleteAclsFilter::default();
    filter.resource_type_filter = acl.resource_type.code();
    filter.resource_name_filter = Some(StrBytes::from(acl.resource_name.as_str()));
    filter.pattern_type_filter = acl.pattern_type.code();
    filter.principal_filter = Some(StrBytes::from(acl.principal.as_str()));
    filter.host_filter = Some(StrBytes::from(acl.host.as_str()));
    filter.operation = acl.operation.code();
    filter.permission_type = acl.permission.code();
    filter
}

fn everything(principal: &str) -> DeleteAclsFilter {
    const ANY: i8 = 1;
    let mut filter = DeleteAclsFilter::default();
    (filter.resource_type_filter, filter.pattern_type_filter) = (ANY, ANY);
    (filter.operation, filter.permission_type) = (ANY, ANY);
    filter.principal_filter = Some(StrBytes::from(principal));
    (filter.resource_name_filter, filter.host_filter) = (None, None);
    filter
}

#[cfg(test)]
mod tests;
