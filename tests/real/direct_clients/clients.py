"""The libraries, in exact versions: name, script, and the packages of PyPI or npm. The first package is the library."""

PYTHON = [
    ("pydantic-ai", "pydantic_ai_client.py", ["pydantic-ai-slim[mcp]==2.68.0"]),
    ("langchain-mcp-adapters", "langchain_client.py", ["langchain-mcp-adapters==0.3.2"]),
    ("llama-index-tools-mcp", "llama_index_client.py", ["llama-index-tools-mcp==0.6.0"]),
    ("openai-agents", "openai_agents.py", ["openai-agents==0.24.0"]),
    ("fastmcp", "fastmcp_client.py", ["fastmcp==4.1.6"]),
    ("mcp-use", "mcp_use_client.py", ["mcp-use==1.7.1"]),
    ("agno", "agno_client.py", ["agno[mcp]==3.1.10"]),
    ("smolagents", "smolagents_client.py", ["smolagents[mcp]==1.26.0", "mcpadapt==0.1.19"]),
    ("strands-agents", "strands_client.py", ["strands-agents==1.62.0"]),
    ("mcp-haystack", "haystack_client.py", ["mcp-haystack==2.1.1"]),
    ("dspy", "dspy_client.py", ["dspy[mcp]==3.4.1"]),
    ("chuk-mcp", "chuk_client.py", ["chuk-mcp==0.9.4"]),
    ("autogen-ext", "autogen_client.py", ["autogen-ext[mcp]==0.7.5", "autogen-agentchat==0.7.5", "mcp==1.30.0"]),
    ("agent-framework-core", "agent_framework_client.py", ["agent-framework-core==1.23.0", "mcp==2.3.0"]),
    ("google-adk", "google_adk_client.py", ["google-adk==2.13.0", "mcp==2.3.0"]),
    ("semantic-kernel", "semantic_kernel_client.py", ["semantic-kernel[mcp]==1.45.0"]),
    ("mcp-agent", "mcp_agent_client.py", ["mcp-agent==0.2.6", "mcp==1.30.0"]),
    ("beeai-framework", "beeai_client.py", ["beeai-framework[mcp]==0.1.85"]),
    ("camel-ai", "camel_client.py", ["camel-ai==0.2.90", "mcp==1.30.0"]),
    ("crewai", "crewai_client.py", ["crewai-tools[mcp]==1.15.30"]),
]
