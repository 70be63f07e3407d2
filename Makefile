# Tests of the library and of the examples, documentation examples included.
.PHONY: test
test:
	cargo test
