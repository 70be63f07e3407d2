//! What the compiler refuses, so that nobody can make the mistake.

#[test]
fn c8_a_cached_object_cannot_be_written_to() {
    let tests = trybuild::TestCases::new();
    tests.compile_fail("tests/refused/c8_*.rs");
}
