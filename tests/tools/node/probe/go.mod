module compute-federation/tests/tools/node/probe

go 1.26.0
