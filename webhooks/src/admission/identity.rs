//! Which project a request is for: Milo says so in the claims of the user (platform.md 2.1 and 2.2).

use api::ProjectName;
use api::milo::{
    PARENT_API_GROUP, PARENT_NAME, PARENT_TYPE, PARENT_TYPE_PROJECT, RESOURCE_MANAGER_GROUP,
};
use thiserror::Error;

use super::review::UserInfo;

/// Why it is not known which project a request is for.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub(crate) enum IdentityError {
    #[error(
        "userInfo.extra has no {0}: the request did not come through the control plane of a project"
    )]
    Missing(&'static str),
    #[error("userInfo.extra has {count} values of {claim}, must have one")]
    Contradictory { claim: &'static str, count: usize },
    #[error("userInfo.extra says that {claim} is {value:?}, must be {expected:?}")]
    NoProject {
        claim: &'static str,
        value: String,
        expected: &'static str,
    },
    #[error("userInfo.extra has a {PARENT_NAME} that names no project: {0}")]
    Invalid(#[from] api::identity::IdentityError),
}

/// The project that a request is for.
///
/// # Errors
///
/// [`IdentityError`], which names the claim at fault.
pub(crate) fn project(user: &UserInfo) -> Result<ProjectName, IdentityError> {
    let expect = |claim, expected| match one(user, claim)? {
        value if value == expected => Ok(()),
        value => Err(IdentityError::NoProject {
            claim,
            value: value.to_owned(),
            expected,
        }),
    };
    expect(PARENT_TYPE, PARENT_TYPE_PROJECT)?;
    // Milo's own webhooks do not look at it (platform.md 2.2): it may be absent, but must not contradict.
    if user.extra.contains_key(PARENT_API_GROUP) {
        expect(PARENT_API_GROUP, RESOURCE_MANAGER_GROUP)?;
    }
    Ok(ProjectName::new(one(user, PARENT_NAME)?)?)
}

/// The one value of a claim.
fn one<'u>(user: &'u UserInfo, claim: &'static str) -> Result<&'u str, IdentityError> {
    match user.extra.get(claim).map(Vec::as_slice) {
        None | Some([]) => Err(IdentityError::Missing(claim)),
        Some([value]) if value.is_empty() => Err(IdentityError::Missing(claim)),
        Some([value]) => Ok(value),
        Some(values) => Err(IdentityError::Contradictory {
            claim,
            count: values.len(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Claim<'a> = (&'a str, &'a [&'a str]);

    fn user(claims: &[Claim<'_>]) -> UserInfo {
        let values = |values: &[&str]| values.iter().map(|&value| value.to_owned()).collect();
        let extra = claims.iter();
        UserInfo {
            extra: extra
                .map(|(claim, of)| ((*claim).to_owned(), values(of)))
                .collect(),
            ..UserInfo::default()
        }
    }

    #[test]
    fn the_claims_of_milo_name_the_project() {
        let name = |claims: &[Claim<'_>]| project(&user(claims)).unwrap();
        let full: [Claim<'_>; 3] = [
            (PARENT_TYPE, &["Project"]),
            (PARENT_NAME, &["p1"]),
            (PARENT_API_GROUP, &["resourcemanager.miloapis.com"]),
        ];
        assert_eq!(name(&full).as_str(), "p1");
        assert_eq!(name(&full[..2]).as_str(), "p1");
    }

    #[test]
    fn what_is_wrong_with_the_claims_is_said() {
        let type_: Claim<'_> = (PARENT_TYPE, &["Project"]);
        let name: Claim<'_> = (PARENT_NAME, &["p1"]);
        let came_otherwise = "the request did not come through the control plane of a project";
        for (claims, message) in [
            (
                vec![],
                format!("userInfo.extra has no iam.miloapis.com/parent-type: {came_otherwise}"),
            ),
            (
                vec![type_],
                format!("userInfo.extra has no iam.miloapis.com/parent-name: {came_otherwise}"),
            ),
            (
                vec![type_, (PARENT_NAME, &[""])],
                format!("userInfo.extra has no iam.miloapis.com/parent-name: {came_otherwise}"),
            ),
            (
                vec![(PARENT_TYPE, &["Organization"]), name],
                "userInfo.extra says that iam.miloapis.com/parent-type is \"Organization\", must be \"Project\"".into(),
            ),
            (
                vec![type_, name, (PARENT_API_GROUP, &["other"])],
                "userInfo.extra says that iam.miloapis.com/parent-api-group is \"other\", must be \
                 \"resourcemanager.miloapis.com\""
                    .into(),
            ),
            (
                vec![type_, (PARENT_NAME, &["p1", "p2"])],
                "userInfo.extra has 2 values of iam.miloapis.com/parent-name, must have one".into(),
            ),
            (
                vec![type_, (PARENT_NAME, &["/p1"])],
                "userInfo.extra has a iam.miloapis.com/parent-name that names no project".into(),
            ),
        ] {
            let error = project(&user(&claims)).unwrap_err().to_string();
            assert!(error.starts_with(&message), "{error}");
        }
    }
}
