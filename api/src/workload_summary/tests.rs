use super::*;

#[test]
fn values_keep_their_type_and_have_a_fixed_order() {
    let text = r#"["10","a",-3,2,true,false]"#;
    let mut values: Vec<Scalar> = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&values).unwrap(), text);
    values.sort();
    assert_eq!(json!(values), json!([false, true, -3, 2, "10", "a"]));
}

#[test]
fn a_state_has_its_name_of_json() {
    for state in [
        RowState::Reported,
        RowState::NotReported,
        RowState::Unreachable,
        RowState::Leaving,
        RowState::NotPlaced,
        RowState::Unknown,
    ] {
        assert_eq!(json!(state), state.as_str());
    }
}
