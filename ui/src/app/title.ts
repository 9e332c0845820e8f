// What the tab is called: each note by its own title.
import { signal } from '@preact/signals'
import { useEffect } from 'preact/hooks'

export const ownTitle = signal('')

export function useTitle(title: string): void {
  useEffect(() => {
    ownTitle.value = title
    return () => {
      ownTitle.value = ''
    }
  }, [title])
}
