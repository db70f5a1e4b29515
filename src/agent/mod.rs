//! A turn of an agent: its prompt, its transcript, the loop of model calls and tool calls.
