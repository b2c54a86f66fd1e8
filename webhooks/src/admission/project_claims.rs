//! Finds the project of a request. Milo adds claims to the requester, and the claims contain the project
//! (docs/concepts/milo.md).

use api::ProjectName;
use api::milo::{
    PARENT_API_GROUP, PARENT_NAME, PARENT_TYPE, PARENT_TYPE_PROJECT, RESOURCE_MANAGER_GROUP,
};
use thiserror::Error;

use super::user_info::UserInfo;
use crate::bounded::bounded;

/// The reason why the claims do not identify a project.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub(crate) enum ClaimsError {
    #[error(
        "userInfo.extra has no {0}: the request did not come through the control plane of a project"
    )]
    Missing(&'static str),
    #[error("userInfo.extra has {count} values of {claim}, must have one")]
    Ambiguous { claim: &'static str, count: usize },
    #[error("userInfo.extra says that {claim} is {value:?}, must be {expected:?}")]
    Unexpected {
        claim: &'static str,
        value: String,
        expected: &'static str,
    },
    #[error("userInfo.extra has a {PARENT_NAME} that names no project: {0}")]
    Invalid(#[from] api::identity::IdentityError),
}

/// Returns the project of a request.
///
/// # Errors
///
/// [`ClaimsError`] with the name of the wrong claim.
pub(crate) fn project(user: &UserInfo) -> Result<ProjectName, ClaimsError> {
    let expect = |claim, expected| match one(user, claim)? {
        value if value == expected => Ok(()),
        value => Err(ClaimsError::Unexpected {
            claim,
            value: bounded(value).into_owned(),
            expected,
        }),
    };
    expect(PARENT_TYPE, PARENT_TYPE_PROJECT)?;
    // This claim may be absent, because the webhooks of Milo do not read it. If the claim is present, its value must be
    // the expected group.
    if user.extra.contains_key(PARENT_API_GROUP) {
        expect(PARENT_API_GROUP, RESOURCE_MANAGER_GROUP)?;
    }
    Ok(ProjectName::new(one(user, PARENT_NAME)?)?)
}

/// Returns the only value of a claim. An empty value counts as a missing claim.
fn one<'u>(user: &'u UserInfo, claim: &'static str) -> Result<&'u str, ClaimsError> {
    match user.extra.get(claim).map(Vec::as_slice) {
        None | Some([]) => Err(ClaimsError::Missing(claim)),
        Some([value]) if value.is_empty() => Err(ClaimsError::Missing(claim)),
        Some([value]) => Ok(value),
        Some(values) => Err(ClaimsError::Ambiguous {
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
    fn the_claims_name_the_project() {
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
    fn an_error_names_the_wrong_claim() {
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
