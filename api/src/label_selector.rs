//! Checks of label selectors.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// Returns a sentence if the operator of an expression does not allow its values. It begins with the field. The client
/// library accepts such an expression: `NotIn` without values would select everything.
pub fn values_problem(selector: &LabelSelector) -> Option<String> {
    let expressions = selector.match_expressions.iter().flatten();
    let mut problems = expressions.enumerate().filter_map(|(at, expression)| {
        let is_empty = expression.values.as_ref().is_none_or(Vec::is_empty);
        let problem = match expression.operator.as_str() {
            "In" | "NotIn" if is_empty => "at least one value is required",
            "Exists" | "DoesNotExist" if !is_empty => "no value is allowed",
            _ => return None,
        };
        Some(format!("matchExpressions[{at}].values: {problem}"))
    });
    problems.next()
}
