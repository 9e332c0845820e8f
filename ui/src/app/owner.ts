import { signal } from '@preact/signals'
import { get } from './api'

/** Whether the signed-in user owns this server. */
export const isOwner = signal(false)

export function loadOwner(): void {
  get('/api/me').then(
    (me) => (isOwner.value = me.is_owner),
    () => {}, // a page shows the error of its own request
  )
}
