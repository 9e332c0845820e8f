// Two builds: the viewer must be one file, for hosts that show it in a sandbox without a network; the web app has few
// files whose names stay the same, because they are committed.
import preact from '@preact/preset-vite'
import { defineConfig } from 'vite'
import { viteSingleFile } from 'vite-plugin-singlefile'
import { withOneLocale, withoutInjectedStyles } from './vite-plugins'

const OUT = process.env.WEB_FOLDER ?? '../src/memory_mcp/web' // another one to compare with

export default defineConfig(({ mode }) =>
  mode === 'viewer'
    ? {
        publicDir: false,
        plugins: [preact(), withOneLocale, viteSingleFile({ removeViteModuleLoader: true })],
        build: {
          outDir: OUT,
          emptyOutDir: false,
          target: 'es2022',
          modulePreload: false,
          license: { fileName: 'viewer-licenses.md' }, // of the packages inside, which most of them require
          rolldownOptions: { input: 'viewer.html' },
        },
      }
    : {
        base: '/',
        plugins: [preact(), withOneLocale, withoutInjectedStyles],
        build: {
          outDir: `${OUT}/app`,
          emptyOutDir: true,
          target: 'es2022',
          modulePreload: false,
          assetsInlineLimit: 0,
          cssCodeSplit: false,
          license: { fileName: 'licenses.md' },
          rolldownOptions: {
            input: 'index.html',
            output: {
              entryFileNames: 'assets/app.js',
              chunkFileNames: 'assets/[name].js',
              assetFileNames: 'assets/app[extname]',
            },
          },
        },
      },
)
