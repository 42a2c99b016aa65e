"""The libraries, in exact versions: the name, the script, and the packages of PyPI or npm, of which the first is the
library itself. The others are what it needs and does not install, or would install in a version that it cannot use."""

import re
from dataclasses import dataclass


@dataclass
class Client:
    name: str
    script: str
    packages: list[str]

    @property
    def version(self):
        return re.split("==|(?<=.)@", self.packages[0])[-1]


MCP_1, MCP_2, SDK_1 = "mcp==1.30.0", "mcp==2.3.0", "@modelcontextprotocol/sdk@1.32.2"

CLIENTS = [Client(name, script, packages) for name, script, packages in [
    ("pydantic-ai", "pydantic_ai_client.py", ["pydantic-ai-slim[mcp]==2.68.0"]),
    ("langchain-mcp-adapters", "langchain_client.py", ["langchain-mcp-adapters==0.3.2"]),
    ("llama-index-tools-mcp", "llama_index_client.py", ["llama-index-tools-mcp==0.6.0"]),
    ("openai-agents", "openai_agents.py", ["openai-agents==0.24.0"]),
    ("fastmcp", "fastmcp_client.py", ["fastmcp==4.1.6"]),
    ("mcp-use", "mcp_use_client.py", ["mcp-use==1.7.1"]),
    ("agno", "agno_client.py", ["agno[mcp]==3.1.10"]),
    ("smolagents", "smolagents_client.py", ["smolagents[mcp]==1.26.0", "mcpadapt==0.1.19", MCP_1]),
    ("crewai-tools", "crewai_client.py", ["crewai-tools[mcp]==1.15.30"]),
    ("strands-agents", "strands_client.py", ["strands-agents==1.62.0"]),
    ("mcp-haystack", "haystack_client.py", ["mcp-haystack==2.1.1"]),
    ("dspy", "dspy_client.py", ["dspy[mcp]==3.4.1"]),
    ("chuk-mcp", "chuk_client.py", ["chuk-mcp==0.9.4"]),
    ("autogen-ext", "autogen_client.py", ["autogen-ext[mcp]==0.7.5", "autogen-agentchat==0.7.5", MCP_1]),
    ("agent-framework-core", "agent_framework_client.py", ["agent-framework-core==1.23.0", "tenacity==9.2.1", MCP_2]),
    ("google-adk", "google_adk_client.py", ["google-adk==2.13.0", MCP_2]),
    ("semantic-kernel", "semantic_kernel_client.py", ["semantic-kernel[mcp]==1.45.0"]),
    ("mcp-agent", "mcp_agent_client.py", ["mcp-agent==0.2.6", MCP_1]),
    ("beeai-framework", "beeai_client.py", ["beeai-framework[mcp]==0.1.85"]),
    ("camel-ai", "camel_client.py", ["camel-ai==0.2.90", MCP_1]),
    ("@ai-sdk/mcp", "ai_sdk.mjs", ["@ai-sdk/mcp@2.0.99", "ai@7.0.173"]),
    ("@langchain/mcp-adapters", "langchain.mjs", ["@langchain/mcp-adapters@1.1.4", "@langchain/core@1.4.0"]),
    ("@mastra/mcp", "mastra.mjs", ["@mastra/mcp@2.0.0", "@mastra/core@1.71.0"]),
    ("@openai/agents", "openai_agents.mjs", ["@openai/agents@0.20.0"]),
    ("mcp-client", "mcp_client.mjs", ["mcp-client@1.13.1"]),
    ("@llamaindex/tools", "llamaindex.mjs", ["@llamaindex/tools@0.2.1", "@llamaindex/core@0.6.23"]),
    ("mcporter", "mcporter.mjs", ["mcporter@0.12.3"]),
    ("@strands-agents/sdk", "strands.mjs", ["@strands-agents/sdk@1.19.0", SDK_1]),
    ("@genkit-ai/mcp", "genkit.mjs", ["@genkit-ai/mcp@1.42.0", "genkit@1.42.0"]),
    ("@google/adk", "google_adk.mjs", ["@google/adk@2.0.0", SDK_1]),
    ("@voltagent/core", "voltagent.mjs", ["@voltagent/core@2.10.0"]),
]]
