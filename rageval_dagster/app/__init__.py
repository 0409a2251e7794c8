"""The use cases, which command line, REST endpoints and demo call alike: typed in, typed out; they print nothing."""
