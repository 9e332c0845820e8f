// The title of the tab, where a page sets its own, such as a note's.
import { signal } from '@preact/signals'
import { useEffect } from 'preact/hooks'

export const pageTitle = signal('')

export function usePageTitle(title: string): void {
  useEffect(() => {
    pageTitle.value = title
    return () => {
      pageTitle.value = ''
    }
  }, [title])
}
