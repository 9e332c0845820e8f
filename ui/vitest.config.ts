import { defineConfig } from 'vitest/config'

// Only the pure parts: everything that needs a page runs in a browser, in tests/web of the repository.
export default defineConfig({
  test: { include: ['tests/**/*.test.{ts,tsx}'], environment: 'node' },
})
