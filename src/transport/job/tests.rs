//! Tests of Job Objects.
