#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| dynamic_mcp::fuzzing::warden(data));
