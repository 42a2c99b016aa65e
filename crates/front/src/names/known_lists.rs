//! The resources, templates, prompts and skills of all groups that are known without asking a server: the lists of the
//! last connections, and the URIs that groups claim although no list of resources has to have them.

use base::blocking;
use config::GroupName;
use upstream::catalog::OtherLists;
use upstream::catalog::entries::ListEntries;
use upstream::catalog::list_limits::CatalogList;
use upstream::{GroupManager, Upstream};
use wire::protocol::methods::Method;

/// The entries of one list, by group, in config order.
pub(crate) type GroupEntries = Vec<(GroupName, ListEntries)>;

/// One of the lists that groups have beside their tools.
pub struct ListKind {
    /// The method that lists.
    pub method: Method,
    /// The list in a catalog.
    pub list: CatalogList,
    /// Selects the list of the last connection.
    known: fn(&OtherLists) -> ListEntries,
}

impl ListKind {
    /// `resources/list`.
    pub const RESOURCES: Self = Self {
        method: Method::ResourcesList,
        list: CatalogList::Resources,
        known: |lists| lists.resources.clone(),
    };
    /// `resources/templates/list`.
    pub(crate) const TEMPLATES: Self = Self {
        method: Method::ResourceTemplatesList,
        list: CatalogList::Templates,
        known: |lists| lists.templates.clone(),
    };
    /// `prompts/list`.
    pub const PROMPTS: Self = Self {
        method: Method::PromptsList,
        list: CatalogList::Prompts,
        known: |lists| lists.prompts.clone(),
    };
    /// `skills/list`.
    pub(crate) const SKILLS: Self =
        Self { method: Method::SkillsList, list: CatalogList::Skills, known: |lists| lists.skills.clone() };
    /// `tasks/list`. Nothing is known without a connection, because a task does not outlive its server.
    pub const TASKS: Self =
        Self { method: Method::TasksList, list: CatalogList::Tasks, known: |_| ListEntries::default() };
}

/// Returns the entries of one list of all groups, as their last connections had them.
pub fn entries(groups: &GroupManager, kind: &ListKind) -> GroupEntries {
    groups.all().iter().map(|group| (group.name.clone(), last_known(group, kind))).collect()
}

/// Returns the list of the last connection of a group. It is empty if nothing is known.
pub(crate) fn last_known(group: &Upstream, kind: &ListKind) -> ListEntries {
    let catalog = group.snapshot().catalog.clone();
    catalog.as_ref().and_then(|catalog| catalog.lists()).map(kind.known).unwrap_or_default()
}

/// Returns the list of the last connection of a group, whose file may have to be read. It is empty if nothing is known,
/// or if that took too long.
pub(crate) async fn read_last_known(group: Upstream, kind: &'static ListKind) -> ListEntries {
    let bytes = group.snapshot().catalog.as_ref().map_or(0, |catalog| catalog.work_bytes());
    blocking::run_on(bytes, move || last_known(&group, kind)).await.unwrap_or_default()
}

/// Returns the URIs that the groups are known to claim.
pub fn claims(groups: &GroupManager) -> GroupEntries {
    let claims = |group: &Upstream| {
        let catalog = group.snapshot().catalog.clone();
        (group.name.clone(), catalog.map(|catalog| catalog.claims().clone()).unwrap_or_default())
    };
    groups.all().iter().map(claims).collect()
}

/// Returns the resources that the groups list, and then what they claim beside those, for each group in config order.
pub(crate) fn resources_and_claims(groups: &GroupManager) -> GroupEntries {
    let resources = entries(groups, &ListKind::RESOURCES).into_iter();
    resources.zip(claims(groups)).flat_map(|(resources, claims)| [resources, claims]).collect()
}
