// Deletes a conversation, those of a project, or all of them, in one step with Undo.
import { showError, toast } from '../../shared/toast'
import { post } from '../api'
import { asOneChange } from '../changes'
import { navigate } from '../router'

interface Props {
  reference: string // conversation:ID, conversations:PROJECT, or conversations: for all
  label: string
  what: string
  leadsTo?: string
}

export function DeleteConversations({ reference, label, what, leadsTo }: Props) {
  const restore = async () => {
    await asOneChange(() => post('/api/memories/restore', { body: { ref: reference } }))
    toast('Restored: ' + what)
  }
  async function deleteAll() {
    try {
      await asOneChange(() => post('/api/memories/delete', { body: { ref: reference } }))
      if (leadsTo) navigate(leadsTo)
      toast('Deleted: ' + what, { undo: restore })
    } catch (error) {
      showError(error)
    }
  }
  return (
    <button class="danger" onClick={deleteAll}>
      {label}
    </button>
  )
}
