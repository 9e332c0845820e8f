import { effect, signal } from '@preact/signals'

export const THEMES = ['system', 'light', 'dark'] as const
type Theme = (typeof THEMES)[number]

const NAME = 'theme'
const isDark = matchMedia('(prefers-color-scheme: dark)')
const systemIsDark = signal(isDark.matches)
isDark.addEventListener('change', () => (systemIsDark.value = isDark.matches))

export const chosen = signal<Theme>(remembered())
export const shown = signal<'light' | 'dark'>('light')

effect(() => {
  shown.value = chosen.value === 'system' ? (systemIsDark.value ? 'dark' : 'light') : chosen.value
  document.documentElement.dataset.theme = shown.value
})

export function choose(theme: Theme): void {
  chosen.value = theme
  try {
    localStorage.setItem(NAME, theme)
  } catch {
    // private mode: it lasts until the tab is closed
  }
}

function remembered(): Theme {
  try {
    const kept = localStorage.getItem(NAME)
    return THEMES.find((theme) => theme === kept) ?? 'system'
  } catch {
    return 'system'
  }
}
