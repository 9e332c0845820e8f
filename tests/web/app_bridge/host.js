// A host made of the official parts: their client speaks to the server, their AppBridge to the app in its sandbox.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { AppBridge, buildAllowAttribute, getToolUiResourceUri, PostMessageTransport, RESOURCE_MIME_TYPE } from '@modelcontextprotocol/ext-apps/app-bridge'

const ME = { name: 'app-bridge-host', version: '1' }
const CAPABILITIES = { extensions: { 'io.modelcontextprotocol/ui': { mimeTypes: [RESOURCE_MIME_TYPE] } } }
const ABILITIES = { serverTools: {}, serverResources: {}, downloadFile: {}, logging: {} }
const CONTEXT = { theme: 'light', displayMode: 'inline', availableDisplayModes: ['inline', 'fullscreen'], platform: 'web', locale: 'en-US', timeZone: 'UTC' }

window.show = async ({ key, era, tool, input, sandbox }) => {
  const client = await connected(key, era)
  const offered = (await client.listTools()).tools.find(({ name }) => name === tool)
  const [content] = (await client.readResource({ uri: getToolUiResourceUri(offered) })).contents
  if (content.mimeType !== RESOURCE_MIME_TYPE) throw new Error(content.mimeType)
  const frame = framed(sandbox, content._meta?.ui)
  const bridge = new AppBridge(client, ME, ABILITIES, { hostContext: { ...CONTEXT, toolInfo: { tool: offered } } })
  bridge.ondownloadfile = async ({ contents }) => (contents.forEach(save), {})
  bridge.onsizechange = ({ height }) => {
    if (height) frame.style.height = `${height}px`
  }
  bridge.onrequestdisplaymode = async ({ mode }) => {
    frame.classList.toggle('fullscreen', mode === 'fullscreen')
    bridge.setHostContext({ ...CONTEXT, displayMode: mode })
    return { mode }
  }
  bridge.onsandboxready = () => bridge.sendSandboxResourceReady({ html: content.text, ...content._meta?.ui })
  bridge.oninitialized = async () => {
    await bridge.sendToolInput({ arguments: input })
    await bridge.sendToolResult(await client.callTool({ name: tool, arguments: input }))
  }
  document.body.append(frame)
  await bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow))
  frame.src = sandbox
}

async function connected(key, era) {
  const options = era ? { versionNegotiation: { mode: { pin: era } } } : {}
  const client = new Client(ME, { capabilities: CAPABILITIES, ...options })
  const headers = { Authorization: `Bearer ${key}` }
  await client.connect(new StreamableHTTPClientTransport(new URL('/mcp', location.href), { requestInit: { headers } }))
  return client
}

function framed(sandbox, wishes) {
  const frame = document.createElement('iframe')
  frame.title = 'App'
  frame.setAttribute('sandbox', 'allow-scripts allow-same-origin allow-forms')
  frame.allow = buildAllowAttribute(wishes?.permissions)
  return frame
}

function save({ resource: { uri, text, blob, mimeType } }) {
  const bytes = text ?? Uint8Array.from(atob(blob), (letter) => letter.charCodeAt(0))
  const link = document.createElement('a')
  link.href = URL.createObjectURL(new Blob([bytes], { type: mimeType }))
  link.download = uri.split('/').pop()
  link.click()
}
