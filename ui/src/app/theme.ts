import { effect, signal } from '@preact/signals'

export const THEMES = ['system', 'light', 'dark'] as const
type Theme = (typeof THEMES)[number]

const STORAGE_KEY = 'theme'
const isDark = matchMedia('(prefers-color-scheme: dark)')
const systemIsDark = signal(isDark.matches)
isDark.addEventListener('change', () => (systemIsDark.value = isDark.matches))

export const chosenTheme = signal<Theme>(loadTheme())
export const shownTheme = signal<'light' | 'dark'>('light')

effect(() => {
  shownTheme.value = chosenTheme.value === 'system' ? (systemIsDark.value ? 'dark' : 'light') : chosenTheme.value
  document.documentElement.dataset.theme = shownTheme.value
})

export function setTheme(theme: Theme): void {
  chosenTheme.value = theme
  try {
    localStorage.setItem(STORAGE_KEY, theme)
  } catch {
    // no storage: the choice lasts until the tab is closed
  }
}

function loadTheme(): Theme {
  try {
    const stored = localStorage.getItem(STORAGE_KEY)
    return THEMES.find((theme) => theme === stored) ?? 'system'
  } catch {
    return 'system'
  }
}
