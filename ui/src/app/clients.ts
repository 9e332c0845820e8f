// How to connect each client to this server with a key.

export interface Setup {
  instruction: string
  text: string
  link?: { label: string; href: string }
}

const server = (url: string, key: string) => ({ url, headers: { Authorization: `Bearer ${key}` } })
const json = (value: unknown) => JSON.stringify(value, null, 2)

const INITIALIZE = {
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'curl', version: '1' } },
}

function cursorLink(url: string, key: string): string {
  const config = btoa(JSON.stringify(server(url, key)))
  return `cursor://anysphere.cursor-deeplink/mcp/install?name=memory&config=${encodeURIComponent(config)}`
}

export const CLIENTS: Record<string, (url: string, key: string) => Setup> = {
  'Claude Code': (url, key) => ({
    instruction: 'Run this in a terminal:',
    text: `claude mcp add --transport http --scope user memory ${url} --header "Authorization: Bearer ${key}"`,
  }),
  'Claude Desktop': () => ({
    instruction: 'It starts its own copy, on the same memory and without a key. In claude_desktop_config.json:',
    text: json({ mcpServers: { memory: { command: 'memory-mcp' } } }),
  }),
  Cursor: (url, key) => ({
    instruction: 'In ~/.cursor/mcp.json:',
    text: json({ mcpServers: { memory: server(url, key) } }),
    link: { label: 'Add to Cursor', href: cursorLink(url, key) },
  }),
  'VS Code': (url, key) => ({
    instruction: 'In .vscode/mcp.json:',
    text: json({ servers: { memory: { type: 'http', ...server(url, key) } } }),
  }),
  'Gemini CLI': (url, key) => ({
    instruction: 'In ~/.gemini/settings.json:',
    text: json({ mcpServers: { memory: { httpUrl: url, headers: { Authorization: `Bearer ${key}` } } } }),
  }),
  Codex: (url) => ({
    instruction: 'In ~/.codex/config.toml, with the key in the variable MEMORY_MCP_KEY:',
    text: `[mcp_servers.memory]\nurl = "${url}"\nbearer_token_env_var = "MEMORY_MCP_KEY"`,
  }),
  curl: (url, key) => ({
    instruction: 'To check that it works:',
    text: [
      `curl ${url} -H "Authorization: Bearer ${key}" -H "Content-Type: application/json"`,
      `-H "Accept: application/json, text/event-stream" -d '${JSON.stringify(INITIALIZE)}'`,
    ].join(' '),
  }),
}

export const DEFAULT_CLIENT = 'Claude Code'
